//! Tests of `gate`: a soc, and seats played by threads of this process.

use super::*;

fn gate() -> (tempfile::TempDir, Gate) {
    let folder = tempfile::tempdir().expect("a folder");
    let costs = lab::model::Costs { mailbox_ps: 1000, ..Default::default() };
    let domain = Domain { slot: 1, khz: 1_000_000, costs, ..Domain::default() };
    let lab = Lab { vectors: 8, domains: vec![domain], most_ps: 1000, ..Lab::default() };
    lab.write(folder.path()).expect("a model");
    let config = Config { lab: true, ..Config::default() };
    let gate = Gate::of(&config, folder.path(), Instant::now()).expect("a gate");
    (folder, gate)
}

#[test]
fn without_a_lab_everybody_may_act() {
    let gate = Gate::open(Instant::now());
    assert_eq!(gate.visit(|| 7), 7);
    assert!(!gate.ring(1, 1) && !gate.is_lab() && !gate.continues(1));
}

/// A visitor gets in while all seats are idle, and sees the board's time.
#[test]
fn an_idle_board_is_visited() {
    let (_folder, gate) = gate();
    gate.start(|_| true).expect("a keeper");
    let now = gate.visit(|| gate.now());
    assert_eq!(now, 0);
    gate.visit(|| gate.ring(0, 3));
    gate.end();
}

/// A domain at a crash point waits for the soc, which carries it out at the domain's time.
#[test]
fn a_point_is_served_in_its_time() {
    let (_folder, mut gate) = gate();
    let inner = Arc::get_mut(gate.lab.as_mut().expect("a lab")).expect("the only one");
    let point = CrashPoint { domain: String::new(), access: 1, kills: true };
    inner.lab.points = vec![point.clone()];
    let page = inner.page;
    let (rung, heard) = std::sync::mpsc::channel();
    gate.start(move |vector| rung.send(vector).is_ok()).expect("a keeper");
    gate.visit(|| gate.boots(1));
    let server = gate.clone();
    let thread = std::thread::spawn(move || {
        let vector = heard.recv().expect("rung");
        let taken = server.visit(|| (server.take_points(), server.now()));
        server.settled(vector);
        taken
    });
    let table = Table::new(page, 1);
    assert!(table.wait(Phase::Running, || false));
    page.set_time(1, 5_000_000);
    page.reach(1, 0, 0);
    assert!(!table.pass(), "the soc is first");
    assert!(table.wait(Phase::Running, || false));
    assert_eq!(thread.join().expect("served"), (vec![point], 5000));
    gate.visit_from(&table);
    assert!(gate.visit(|| gate.take_points()).is_empty());
    gate.end();
}

/// A domain rings the soc; its server settles; the turn is passed on, and time follows the
/// doorbell.
#[test]
fn a_doorbell_is_served_in_its_time() {
    let (_folder, gate) = gate();
    let page = gate.lab.as_ref().expect("a lab").page;
    let (rung, heard) = std::sync::mpsc::channel();
    gate.start(move |vector| rung.send(vector).is_ok()).expect("a keeper");
    gate.visit(|| gate.boots(1));
    let server = gate.clone();
    let thread = std::thread::spawn(move || {
        let vector = heard.recv().expect("rung");
        let time = server.visit(|| server.now());
        server.settled(vector);
        (vector, time)
    });
    let table = Table::new(page, 1);
    assert!(table.wait(Phase::Running, || false));
    page.set_time(1, 5_000_000);
    page.ring(0, 4, 4_000_000);
    assert!(!table.pass(), "the soc is first");
    assert!(table.wait(Phase::Running, || false));
    assert_eq!(thread.join().expect("served"), (4, 4000));
    gate.visit_from(&table);
    gate.end();
}

impl Gate {
    /// A domain's end: its seat becomes empty, and the turn is free for visitors.
    fn visit_from(&self, table: &Table) {
        table.page().set_phase(table.me(), Phase::Absent);
        assert!(!table.pass());
        self.visit(|| self.leaves(table.me(), false));
        assert_ne!(table.page().holder(), table.me() as u64);
    }
}

#[test]
fn a_stopped_clock_stands_and_is_accounted() {
    let (_folder, gate) = gate();
    gate.start(|_| true).expect("a keeper");
    let page = gate.lab.as_ref().expect("a lab").page;
    gate.visit(|| {
        gate.boots(1);
        gate.stops(1);
        assert_eq!(page.seat(1).phase, Phase::Stopped);
        assert!(gate.continues(1), "not by the emulator");
        assert_eq!(page.seat(1).phase, Phase::Running);
        gate.leaves(1, true);
        assert!(!gate.continues(1), "after a reset the emulator has to be let go");
        assert_eq!(page.seat(1).phase, Phase::Running);
        gate.leaves(1, false);
    });
    gate.end();
}

/// A device's alarms move the time of a board neither before it begins nor after its end.
#[test]
fn alarms_come_between_the_first_power_on_and_the_end() {
    let (_folder, gate) = gate();
    let (rung, heard) = std::sync::mpsc::channel();
    // No thread serves the doorbell, so the turn does not wait for one.
    gate.start(move |vector| rung.send(vector).is_err()).expect("a keeper");
    gate.visit(|| gate.alarm(4, Some(5000)));
    assert_eq!(gate.visit(|| gate.now()), 0);
    assert!(heard.try_recv().is_err(), "no domain has had power");
    gate.visit(|| {
        gate.boots(1);
        gate.leaves(1, false);
    });
    assert_eq!(heard.recv().expect("rung"), 4);
    gate.visit(|| {
        gate.alarm(4, Some(6000));
        gate.freeze();
        gate.alarm(4, Some(7000));
    });
    gate.visit(|| ());
    assert_eq!(gate.visit(|| gate.now()), 5000);
    assert!(heard.try_recv().is_err());
    gate.end();
}
