//! How many ends of channels there are, and messages: the head of `/proc/KERNEL/channels` of each
//! kernel that runs.

use crate::power::Kernel;

/// The counts of one kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Index of the kernel.
    kernel: usize,
    ends: u64,
    /// Messages that its programs have sent since it booted.
    sent: u64,
}

/// The counts of all kernels that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channels(Vec<Counts>);

impl Channels {
    /// Asks the kernels.
    pub fn of(kernels: &[Kernel]) -> Channels {
        let texts = kernels.iter().enumerate();
        let texts = texts.filter_map(|(index, kernel)| Some((index, kernel.read("channels")?)));
        Channels(texts.filter_map(|(index, text)| parse(index, &text)).collect())
    }

    /// Formats the counts in a line. The rate is that of `elapsed` ns since `before`, of the
    /// kernels that have run at both times; `-` if there are none.
    pub fn line(&self, before: &Channels, elapsed: u64) -> String {
        let ends: u64 = self.0.iter().map(|counts| counts.ends).sum();
        let since = |now: &Counts| {
            let then = before.0.iter().find(|then| then.kernel == now.kernel)?;
            // A kernel that has started again counts from 0.
            Some(now.sent.checked_sub(then.sent).unwrap_or(now.sent))
        };
        let known: Vec<u64> = self.0.iter().filter_map(since).collect();
        let sent = u128::from(known.iter().fold(0, |sum: u64, sent| sum.saturating_add(*sent)));
        let rate = (sent * 1_000_000_000).checked_div(elapsed.into());
        let rate = rate.filter(|_| !known.is_empty());
        let rate = rate.map_or("-".to_string(), |rate| rate.to_string());
        format!("{ends} ends of channels, {rate} messages/s\n")
    }
}

/// Parses the file of a kernel: `ends NUMBER of MOST`, `messages NUMBER sent`, then other lines.
fn parse(kernel: usize, text: &str) -> Option<Counts> {
    let number = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        let mut words =
            lines.find_map(|mut words| (words.next() == Some(name)).then_some(words))?;
        words.next()?.parse().ok()
    };
    Some(Counts { kernel, ends: number("ends")?, sent: number("messages")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(all: &[(usize, &str)]) -> Channels {
        Channels(all.iter().filter_map(|(kernel, text)| parse(*kernel, text)).collect())
    }

    #[test]
    fn ends_and_messages_of_all_kernels_are_added_up() {
        let before = counts(&[
            (
                0,
                "  ends      2 of 128\n  messages  100 sent\n  cells     9 free\n  channel  side\n",
            ),
            (1, "  ends      1 of 128\n  messages  50 sent\n"),
        ]);
        let now = counts(&[
            (0, "  ends      3 of 128\n  messages  1100 sent\n"),
            (1, "  ends      4 of 128\n  messages  60 sent\n"),
        ]);
        let second = 1_000_000_000;
        assert_eq!(now.line(&before, 2 * second), "7 ends of channels, 505 messages/s\n");
        assert_eq!(now.line(&Channels::default(), second), "7 ends of channels, - messages/s\n");
        assert_eq!(now.line(&before, 0), "7 ends of channels, - messages/s\n");
    }

    #[test]
    fn a_kernel_that_was_not_asked_before_or_has_started_again_adds_what_is_known() {
        let before = counts(&[(0, "ends 2 of 128\nmessages 100 sent\n")]);
        let now = counts(&[
            (0, "ends 0 of 128\nmessages 30 sent\n"),
            (1, "ends 1 of 128\nmessages 900 sent\n"),
        ]);
        assert_eq!(now.line(&before, 1_000_000_000), "1 ends of channels, 30 messages/s\n");
        assert_eq!(counts(&[(0, "! channels: it failed\n"), (1, "ends x\n")]), Channels::default());
    }
}
