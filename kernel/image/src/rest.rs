//! Lets this domain rest when it has nothing to do: the thread that asks `kernel_power`'s governor,
//! and carries out its steps (docs/design/rest.md).

use crate::power;
use abi::soc::command;
use base::id::CoreId;
use kernel_node::log;
use kernel_power::{Facts, Governor, Outcome, Rest, Step, Verdict};
use kernel_programs::processes::light;
use kernel_sched::PRIORITY_REST;
use kernel_sched::table::Table;
use kernel_services::duty::{self, Announcement};
use kernel_services::kernel::{self, Kernel};
use kernel_services::power::{self as counted, Moment};

/// The core that the thread runs on; the others are off during a rest.
const CORE: CoreId = CoreId(0);

/// Starts the thread, if this domain rests.
pub fn start(kernel: &'static Kernel) {
    let spawn = || kernel.scheduler.spawn("rest", PRIORITY_REST, Some(CORE), thread, 0);
    let asked = counted::asked_rest(kernel, kernel.domain());
    if let Some(word) = asked.filter(|ms| ms.parse::<u32>().is_err()) {
        log!("rest={word}: no number of ms; the board file's is used");
    }
    let rests = counted::rests_after(kernel, kernel.domain()).is_some();
    if rests && spawn().is_err() {
        log!("no memory for the thread that lets this domain rest");
    }
}

fn thread(_: usize) {
    let Some(kernel) = kernel::get() else { return };
    let Some(patience) = counted::rests_after(kernel, kernel.domain()) else { return };
    kernel.scheduler.defer();
    let mut governor = Governor::new(patience);
    loop {
        let now = arch::time::soc_time();
        match governor.ask(now, facts(kernel, now)) {
            Verdict::AskAt(at) => {
                counted::publish(kernel);
                kernel.scheduler.sleep_until(at);
            }
            Verdict::Rest => {
                let outcome = rest(kernel);
                governor.tried(arch::time::soc_time(), outcome == Outcome::Rested);
            }
        }
    }
}

fn facts(kernel: &Kernel, now: u64) -> Facts {
    let quiet = kernel
        .scheduler
        .look(|threads| threads.quiet(CORE.index()))
        .filter(|_| !kernel.peers.are_called());
    let since = |tick: u64| {
        let ticks = arch::cpu::clock().saturating_sub(tick);
        now.saturating_sub(arch::time::to_ns(ticks, arch::cpu::clock_hz()))
    };
    let next = Some(duty::next_deadline(kernel)).filter(|&at| at != u64::MAX);
    Facts { quiet_since: quiet.map(since), next }
}

/// Makes one attempt to rest, until the next deadline.
fn rest(kernel: &'static Kernel) -> Outcome {
    // A page under a DMA transfer is not given up before the transfer is done.
    if has_work(kernel) || !light::before_rest(kernel) {
        return Outcome::Stayed;
    }
    // All other threads have a higher priority. One that never waits would keep this one from
    // starting the other cores again. Nor may one use the pages that are given up.
    kernel.scheduler.unpreempted(|| {
        if !power::claim() {
            return Outcome::Stayed;
        }
        let outcome = carry_out(kernel);
        power::release(kernel);
        outcome
    })
}

/// Carries out the steps of an attempt. The cores that it powers off are started by the caller.
fn carry_out(kernel: &'static Kernel) -> Outcome {
    let (mut rest, mut irqs_on, mut before) = (Rest::default(), false, Moment::now());
    let mut announced = None;
    loop {
        let has_succeeded = match rest.step() {
            Step::Drain => {
                // What arrives while the other cores stop is not kept waiting.
                let left = power::stop_others(kernel)
                    && !has_work(kernel)
                    && light::may_rest()
                    && power::has_handed_over(kernel);
                irqs_on = left && arch::cpu::irqs_off();
                left
            }
            Step::Announce => {
                // A domain that rests has no lock.
                duty::release_locks(kernel);
                // The others count a rest from here on, and so does this kernel if it comes to one.
                counted::publish(kernel);
                before = Moment::now();
                // Threads may have run since the governor was asked.
                let Announcement { until, listens, .. } = *announced.insert(duty::announce(kernel));
                kernel.soc.request(command::REST, until, kernel.devices.vectors(listens)).is_ok()
            }
            Step::Look => {
                let may_rest = |announced| duty::may_rest(kernel, announced);
                !has_work(kernel) && announced.as_ref().is_some_and(may_rest)
            }
            Step::Sleep => kernel.soc.request(command::SLEEP, 0, 0).is_ok(),
            Step::Withdraw => kernel.soc.request(command::WAKE, u64::from(kernel.me.0), 0).is_ok(),
            Step::Return => {
                if kernel.soc.has_slept() {
                    kernel.calibrate_clock();
                }
                if rest.has_slept() {
                    counted::rested(kernel, before);
                }
                power::rejoin(kernel);
                // Messages have been handled, before other threads run: one may stop some.
                arch::cpu::irqs_restore(irqs_on);
                true
            }
            Step::Over(outcome) => return outcome,
        };
        rest.done(has_succeeded);
    }
}

/// Returns whether something has arrived that a thread of this kernel waits for.
fn has_work(kernel: &'static Kernel) -> bool {
    kernel.scheduler.look(Table::is_any_ready)
        || kernel.peers.are_called()
        || kernel.peers.is_waiting()
        || kernel.devices.are_busy(kernel)
}
