//! A medium changer that understands SCSI commands.

use super::{
    command::Command,
    device::{Attention, Device, Trouble},
    element::{self, ELEMENTS_AT_ONCE, ElementStatus, KINDS, STATUS_BYTES_MAX},
    inquiry::{DeviceType, Inquiry},
    transport::{Data, Transport},
};
use crate::changer::{Changer, Element, ElementAddress, ElementKind, element_of};
use base::{ErrorKind, Failure, Result, Vid};
use std::collections::BTreeSet;
use tracing::{info, warn};

/// Elements of one type that are asked for: more than any library has.
const ELEMENTS_MAX: usize = 1 << 16;
/// Characters of a bar code that are the volume; two behind them name the type of the medium.
const VID_CHARACTERS: usize = 6;

/// A drive as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedDrive {
    /// The name.
    pub name: String,
    /// Its serial number, as the drive says; finds it among the elements.
    pub serial: String,
}

/// A medium changer behind a transport.
#[derive(Debug)]
pub struct ScsiChanger<T> {
    device: Device<T>,
    drives: Vec<NamedDrive>,
    /// Elements of these, found once.
    addresses: Vec<ElementAddress>,
    /// Bytes of every cartridge; `None`: as the bar code says.
    capacity_bytes: Option<u64>,
    /// The changer tells which drive is in which element.
    has_identities: bool,
    /// The element that moves cartridges; 0 leaves the choice to the changer.
    arm: u16,
    /// What the last inventory has told an operator of, so that it is told once.
    told: BTreeSet<String>,
}

impl<T: Transport> ScsiChanger<T> {
    /// Opens the changer at the other end of `transport`, with its drives in the order of their elements.
    pub fn open(
        name: impl Into<String>,
        transport: T,
        drives: Vec<NamedDrive>,
        capacity_bytes: Option<u64>,
    ) -> Result<Self> {
        let mut device = Device::new(name, transport);
        let place =
            |device: &Device<T>| format!("library {} ({})", device.name(), device.transport().address());
        let inquiry = Inquiry::of(&mut device)
            .map_err(|trouble| trouble.failure(&Command::inquiry(None, 0)).during(place(&device)))?;
        if inquiry.kind != DeviceType::Changer {
            let what = format!("{}: it is no medium changer ({:?})", place(&device), inquiry.kind);
            return Err(Failure::invalid(what).hint("compare the configuration with `lsscsi -g`"));
        }
        let changer = Self {
            device,
            drives,
            addresses: Vec::new(),
            capacity_bytes,
            has_identities: true,
            arm: 0,
            told: BTreeSet::new(),
        };
        changer.with_known_drives()
    }

    /// Every drive must have an element of its own.
    fn with_known_drives(mut self) -> Result<Self> {
        let elements = self.elements(4)?;
        for (number, drive) in self.drives.clone().into_iter().enumerate() {
            let address = self.find_drive(&elements, number, &drive)?;
            if self.addresses.contains(&address) {
                let what = format!("library {}: two drives are in element {address}", self.device.name());
                return Err(Failure::invalid(what).hint("name each drive of the library once"));
            }
            info!(library = self.device.name(), drive = %drive.name, serial = %drive.serial, element = %address,
                "tape drive found in the library");
            self.addresses.push(address);
        }
        Ok(self)
    }

    /// Finds the element of a drive: by its serial number if the changer knows it, by its number otherwise.
    fn find_drive(
        &self,
        elements: &[ElementStatus],
        number: usize,
        drive: &NamedDrive,
    ) -> Result<ElementAddress> {
        let NamedDrive { name, serial } = drive;
        let is_here = |element: &&ElementStatus| !serial.is_empty() && element.identity.ends_with(serial);
        if let Some(element) = elements.iter().find(is_here) {
            return Ok(ElementAddress(element.address));
        }
        let element = elements.get(number).ok_or_else(|| {
            let there = base::units::counted(elements.len() as u64, "drive", "drives");
            let what = format!("{}: it has {there}, {name} would be number {}", self.place(), number + 1);
            Failure::invalid(what).hint("name its drives only, in the order of their elements")
        })?;
        if !element.identity.is_empty() && !serial.is_empty() {
            let (place, address, other) = (self.place(), element.address, &element.identity);
            let what =
                format!("{place}: drive {name} ({serial}) is not in element {address}, there is {other}");
            return Err(Failure::invalid(what).hint("the drive may belong to another library"));
        }
        Ok(ElementAddress(element.address))
    }

    fn place(&self) -> String {
        format!("library {} ({})", self.device.name(), self.device.transport().address())
    }

    fn failure(&self, command: &Command, trouble: Trouble) -> Failure {
        trouble.failure(command).during(self.place())
    }

    /// All elements of one type.
    fn elements(&mut self, code: u8) -> Result<Vec<ElementStatus>> {
        let mut found: Vec<ElementStatus> = Vec::new();
        let mut first = 0;
        while found.len() < ELEMENTS_MAX {
            let more = self.some_elements(code, first)?;
            let count = more.len();
            // An answer that does not go on would be asked for again and again.
            let is_next = |element: &ElementStatus| element.address >= first;
            found.extend(more.into_iter().filter(is_next));
            let last = found.last().map(|element| element.address);
            match last.and_then(|last| last.checked_add(1)) {
                Some(next) if count == usize::from(ELEMENTS_AT_ONCE) && next > first => first = next,
                _ => break,
            }
        }
        Ok(found)
    }

    fn some_elements(&mut self, code: u8, first: u16) -> Result<Vec<ElementStatus>> {
        let with_identity = code == 4 && self.has_identities;
        let command = Command::read_element_status(code, first, ELEMENTS_AT_ONCE, with_identity);
        let mut buffer = vec![0; STATUS_BYTES_MAX as usize];
        match self.device.ask(&command, &mut buffer) {
            Ok(data) => element::decode(code, data).map_err(|failure| failure.during(self.place())),
            Err(Trouble::Sense(sense)) if sense.is_not_offered() && with_identity => {
                self.has_identities = false;
                self.some_elements(code, first)
            }
            // There is no element of this type, or none from here on.
            Err(Trouble::Sense(sense)) if sense.code == (0x21, 0x01) => Ok(Vec::new()),
            Err(trouble) => Err(self.failure(&command, trouble)),
        }
    }

    /// The element, and what is wrong with it goes to `problems`.
    fn element(&self, kind: ElementKind, status: ElementStatus, problems: &mut BTreeSet<String>) -> Element {
        let ElementStatus { address, is_full, exception, source, bar_code, .. } = status;
        let folder = match kind {
            ElementKind::Slot => "slot",
            ElementKind::Drive => "drive",
            ElementKind::ImportExport => "import",
            ElementKind::Arm => "arm",
        };
        let name = format!("{folder}/{address}");
        if let Some((asc, ascq)) = exception {
            problems.insert(format!("{name} reports a problem (code {asc:02X}/{ascq:02X})"));
        }
        let label = Label::of(&bar_code);
        if is_full && label == Label::Unusable {
            problems.insert(format!("{name} has a cartridge whose bar code {bar_code:?} is no volume"));
        }
        if is_full && kind == ElementKind::Arm {
            problems.insert(format!("a cartridge ({bar_code}) hangs in the arm"));
        }
        let (vid, capacity) = match label {
            Label::Volume { vid, capacity_bytes } if is_full => (Some(vid), capacity_bytes),
            _ => (None, None),
        };
        let capacity_bytes = self.capacity_bytes.or(capacity).filter(|_| vid.is_some());
        if vid.is_some() && capacity_bytes.is_none() {
            problems.insert(format!(
                "the bar code {bar_code:?} does not say how large the cartridge is; set volume_size"
            ));
        }
        let source = source.map(ElementAddress);
        Element { address: ElementAddress(address), kind, name, vid, is_full, capacity_bytes, source }
    }

    /// Tells an operator of each problem once for as long as it is there.
    fn tell(&mut self, problems: BTreeSet<String>) {
        for problem in problems.difference(&self.told) {
            warn!(library = self.device.name(), %problem, "tape library needs an operator");
        }
        self.told = problems;
    }

    /// A move that was said to be done must be seen, too: a cartridge in the wrong drive would be written.
    fn check_moved(&mut self, vid: Option<&Vid>, to: ElementAddress) -> Result<()> {
        let inventory = self.inventory()?;
        let there = inventory.iter().find(|element| element.address == to);
        let found = there.map(|element| (element.is_full, element.vid.as_ref()));
        if found == Some((true, vid)) {
            return Ok(());
        }
        let wanted = vid.map_or("a cartridge", Vid::as_str);
        let found = match found {
            Some((_, Some(other))) => other.as_str(),
            Some((true, None)) => "another cartridge",
            _ => "nothing",
        };
        let what = format!("{}: {wanted} was moved to element {to}, but {found} is there", self.place());
        Err(Failure::new(ErrorKind::Io, what).hint("look into the library, then have it take its inventory"))
    }
}

impl<T: Transport> Changer for ScsiChanger<T> {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn inventory(&mut self) -> Result<Vec<Element>> {
        let (mut elements, mut problems) = (Vec::<Element>::new(), BTreeSet::new());
        for (code, kind) in KINDS {
            for status in self.elements(code)? {
                let element = self.element(kind, status, &mut problems);
                if let Some(other) = element.vid.as_ref().and_then(|vid| element_of(&elements, vid)) {
                    let what = format!(
                        "{}: {} and {} have the same bar code",
                        self.place(),
                        other.name,
                        element.name
                    );
                    return Err(Failure::corrupt(what).hint("take one of the two out"));
                }
                elements.push(element);
            }
        }
        if let Some(arm) = elements.iter().find(|element| element.kind == ElementKind::Arm) {
            self.arm = arm.address.0;
        }
        elements.sort_by_key(|element| element.address);
        self.tell(problems);
        Ok(elements)
    }

    fn move_medium(&mut self, from: ElementAddress, to: ElementAddress) -> Result<()> {
        let inventory = self.inventory()?;
        let source = inventory.iter().find(|element| element.address == from);
        let vid = source.and_then(|element| element.vid.clone());
        let command = Command::move_medium(self.arm, from.0, to.0);
        let moved = self.device.run(&command, Data::None, Attention::Repeat);
        if let Err(trouble) = moved {
            let what = match &vid {
                Some(vid) => format!("move volume {vid} from element {from} to {to}"),
                None => format!("move from element {from} to {to}"),
            };
            return Err(self.failure(&command, trouble).during(what));
        }
        self.check_moved(vid.as_ref(), to)?;
        info!(library = self.device.name(), ?vid, %from, %to, "medium moved");
        Ok(())
    }

    fn insert(&mut self, volumes: &[Vid]) -> Result<()> {
        let inventory = self.inventory()?;
        match volumes.iter().find(|vid| element_of(&inventory, vid).is_none()) {
            None => Ok(()),
            Some(vid) => {
                let what = format!("{}: it has no cartridge for volume {vid}", self.place());
                Err(Failure::not_found(what)
                    .hint("put the cartridge into an import/export slot, then add it again"))
            }
        }
    }

    fn drive_address(&mut self, drive: &str) -> Result<ElementAddress> {
        let known = self.drives.iter().zip(&self.addresses).find(|(known, _)| known.name == drive);
        known
            .map(|(_, address)| *address)
            .ok_or_else(|| Failure::not_found(format!("{} has no drive {drive}", self.place())))
    }
}

/// What a bar code says.
#[derive(Debug, PartialEq, Eq)]
enum Label {
    Volume {
        vid: Vid,
        capacity_bytes: Option<u64>,
    },
    /// It cleans drives.
    Cleaning,
    Unusable,
}

impl Label {
    /// Bar codes of LTO have six characters for the volume and two for the type of the medium; others have the first alone.
    fn of(bar_code: &str) -> Self {
        if !bar_code.is_ascii() {
            return Self::Unusable;
        }
        let (name, medium) = bar_code.split_at(bar_code.len().min(VID_CHARACTERS));
        if name.starts_with("CLN") || medium == "CU" {
            return Self::Cleaning;
        }
        let capacity_bytes = capacity(medium);
        match name.parse() {
            Ok(vid) if medium.is_empty() || medium.len() == 2 => Self::Volume { vid, capacity_bytes },
            _ => Self::Unusable,
        }
    }
}

/// Bytes of a cartridge without compression, by the type in its bar code (LTO bar code label specification).
fn capacity(medium: &str) -> Option<u64> {
    let gigabytes: u64 = match medium {
        "L3" => 400,
        "L4" => 800,
        "L5" => 1500,
        "L6" => 2500,
        "L7" => 6000,
        "M8" => 9000,
        "L8" => 12_000,
        "L9" => 18_000,
        "JD" => 15_000,
        "JE" => 20_000,
        "JF" => 50_000,
        _ => return None,
    };
    Some(gigabytes * 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_codes_are_volumes_or_not() {
        let volume =
            |text: &str, capacity_bytes| Label::Volume { vid: text.parse().unwrap(), capacity_bytes };
        assert_eq!(Label::of("BP0001L9"), volume("BP0001", Some(18_000_000_000_000)));
        assert_eq!(Label::of("BP0001"), volume("BP0001", None));
        assert_eq!(Label::of("BP0001XX"), volume("BP0001", None));
        assert_eq!(Label::of("CLNU01CU"), Label::Cleaning);
        for bad in ["", "BP0001L", "bp0001L9", "BP0001L99", "BPÄ"] {
            assert_eq!(Label::of(bad), Label::Unusable, "{bad}");
        }
    }
}
