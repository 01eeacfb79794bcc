//! What jobs cost beside processor time, and who pays.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use base::{JobId, Millis};
use sim::World;
use support::*;
use wire::control::{
    AccountPart, ArrayRange, GetAccounts, JobCosts, JobEnded, JobExit, JobInput, JobOutput, JobSpec, JobText,
    Jobs, Resources, Submit, Usage,
};

const GB_HOUR: f64 = 1e9 * 3_600_000.0;

fn spec(inputs: &[&str], memory_bytes: u64) -> JobSpec {
    JobSpec {
        command: vec!["true".into()],
        inputs: inputs.iter().map(|at| JobInput { path: path(at), name: "in".into() }).collect(),
        resources: Resources { cpus: 1, memory_bytes, ..Resources::default() },
        ..JobSpec::default()
    }
}

fn submit(world: &mut World, owner: &str, spec: JobSpec) -> JobId {
    world.call(user(owner), Submit::new(spec)).unwrap().job
}

fn costs(world: &mut World, id: JobId) -> JobCosts {
    let ask = Jobs { ids: vec![id], costs: true, ..Jobs::default() };
    world.user(ask).unwrap().jobs.remove(0).costs.unwrap()
}

#[track_caller]
fn equals(left: f64, right: f64) {
    assert!((left - right).abs() <= 1e-12 + right.abs() * 1e-9, "{left} is not {right}");
}

#[test]
fn nobody_is_told_costs_without_asking() {
    let mut world = world();
    let id = submit(&mut world, "ada", spec(&[], 0));
    assert_eq!(job(&mut world, id).costs, None);
    assert_eq!(costs(&mut world, id), JobCosts { group: "ada".into(), ..JobCosts::default() });
}

#[test]
fn jobs_that_waited_for_the_same_file_share_its_recall() {
    let mut world = world();
    put_nearline(&mut world, "/in", 1000);
    let [one, two] = [0, 1].map(|_| submit(&mut world, "ada", spec(&["/in"], 0)));
    let session = next_session(&mut world).unwrap();
    let request = request_ids(&session)[0];
    world.room(wire::control::FileRecalled { session: session.id, request }).unwrap();
    let before = costs(&mut world, one);
    assert_eq!(before.tape_read_bytes, 500);
    equals(before.tape_loads, 0.0);
    end_session(&mut world, &session, 1);
    let late = submit(&mut world, "ada", spec(&["/in"], 0));
    let told = [one, two, late].map(|id| costs(&mut world, id));
    assert_eq!(told.clone().map(|costs| costs.tape_read_bytes), [500, 500, 0]);
    told.iter().zip([0.5, 0.5, 0.0]).for_each(|(costs, loads)| equals(costs.tape_loads, loads));
}

#[test]
fn elements_of_an_array_share_what_was_read_for_all() {
    let mut world = world();
    put_nearline(&mut world, "/in", 1000);
    let array = Some("1-4".parse::<ArrayRange>().unwrap());
    let first = world.user(Submit { array, ..Submit::new(spec(&["/in"], 0)) }).unwrap().job;
    // The volume is in the drive since the file was archived.
    run_drive(&mut world);
    let told = costs(&mut world, JobId(first.0 + 3));
    assert_eq!(told.tape_read_bytes, 250);
    equals(told.tape_loads, 0.0);
}

#[test]
fn a_run_costs_its_inputs_its_outputs_and_its_memory() {
    let mut world = world();
    put(&mut world, "/in", 4_000);
    let mut wish = spec(&["/in"], 1 << 20);
    wish.outputs = vec![JobOutput { name: "out".into(), path: path("/out") }];
    let id = world.user(Submit::new(wish)).unwrap().job;
    let run = started(&mut world)[0];
    world.room(wire::control::JobStarted::new(run)).unwrap();
    world.advance(Millis(60_000));
    put(&mut world, "/out", 700);
    let usage = Usage { cpu: Millis(3000), wall: Millis(5000), memory_bytes_max: 3 << 20 };
    let ended = JobEnded { run, exit: JobExit::Code(0), usage, text: JobText::default(), stored: Vec::new() };
    world.room(ended).unwrap();
    let told = costs(&mut world, id);
    assert_eq!((told.in_bytes, told.out_bytes), (4_000, 700));
    equals(told.memory_gb_hours, f64::from(3 << 20) * 5_000.0 / GB_HOUR);
    let kept = told.disk_gb_hours * GB_HOUR / 4_000.0;
    assert!((60_000.0..70_000.0).contains(&kept), "its input was kept for {kept} ms");
    let ask =
        GetAccounts { by: vec![AccountPart::Group], group: Some("ada".into()), ..GetAccounts::default() };
    let line = world.user(ask).unwrap().lines.remove(0);
    assert_eq!((line.jobs, line.cpu), (1, Millis(3000)));
    equals(line.memory_gb_hours, told.memory_gb_hours);
}

#[test]
fn each_start_of_the_head_but_the_first_follows_an_interruption() {
    let mut world = world();
    assert_eq!(world.user(GetAccounts::default()).unwrap().interruptions, 0);
    world.crash();
    assert_eq!(world.user(GetAccounts::default()).unwrap().interruptions, 1);
    let elsewhen = Some("1999-01".parse().unwrap());
    assert_eq!(
        world.user(GetAccounts { month: elsewhen, ..GetAccounts::default() }).unwrap().interruptions,
        0
    );
}
