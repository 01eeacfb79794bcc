//! The bill.

use crate::{Apply, Context, Core};
use base::Result;
use wire::control::{Bill, GetBill};

impl Apply for GetBill {
    fn apply(self, core: &mut Core, context: &Context) -> Result<Bill> {
        Ok(Bill { lines: core.store.bill(context.now)? })
    }
}
