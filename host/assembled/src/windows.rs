//! Windows between the threads of both kernels, as a part of their conversations
//! ([`super::talks`]): a caller shares memory with a server, which reads it twice.
//!
//! Contract: what a server finds is what the caller has made visible, unless a kernel died. A
//! window is released in any case, and nothing of it stays.

use crate::callers::{count, deaths};
use crate::report::Count;
use crate::talks::{Over, Talk, bytes_of, tag};
use kernel_contract::exchange::WindowName;
use kernel_contract::{Block, PAGE, Shared};
use kernel_platform::channels::BlockName;
use kernel_services::channels::Failed;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// Memory of a window, which no program shows. These kernels have no bulk memory, so the other one
/// fetches it.
struct Window(Mutex<Vec<u8>>);

impl Window {
    fn new(pages: usize) -> Arc<Window> {
        Arc::new(Window(Mutex::new(vec![0; pages * PAGE])))
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("no thread failed")
    }

    /// Fills it with what follows from a number, and makes that visible.
    fn fill(&self, number: u64) {
        let bytes: Vec<u8> = bytes_of(number).take(self.length()).collect();
        self.store(0, &bytes);
        self.flush(0, bytes.len());
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a window of {} bytes", self.length())
    }
}

impl Shared for Window {
    fn length(&self) -> usize {
        self.bytes().len()
    }

    fn place(&self) -> Option<u64> {
        None
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.bytes()[at..][..into.len()]);
    }

    fn store(&self, at: usize, from: &[u8]) {
        self.bytes()[at..][..from.len()].copy_from_slice(from);
    }

    fn flush(&self, _at: usize, _bytes: usize) {}

    fn show(self: Arc<Self>, _reserved: u64) -> bool {
        false
    }
}

/// A window that a server has received, until it is dropped.
struct Received<'a> {
    talk: &'a Talk<'a>,
    name: BlockName,
    block: Block,
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.talk.kernel().channels.release_window(self.talk.around(), &self.name);
    }
}

impl Received<'_> {
    /// Returns the window as it is now.
    fn fresh(&self) -> Result<Option<Block>, Over> {
        if let Some(memory) = self.block.window() {
            return Ok(Some(Block::shared(memory.clone())));
        }
        loop {
            match self.talk.user().copy_window(&self.name, 0..self.block.len()) {
                // It did not come in time.
                Err(Failed::Silent) => {}
                Err(why) => return Err(self.talk.over(why)),
                Ok(found) => return Ok(found),
            }
        }
    }
}

impl Talk<'_> {
    /// Checks what is in a window. It may be lost with its kernel, or with another one.
    fn check_window(&self, found: Option<&Block>, number: u64) -> Result<(), Over> {
        let Some(found) = found else {
            assert!(deaths(self.kernel()) != self.before, "a window was lost");
            return Err(Over);
        };
        let mut bytes = Vec::new();
        let _ = found.each(|_, piece| {
            bytes.extend_from_slice(piece);
            Ok::<(), ()>(())
        });
        assert_eq!(bytes.len(), found.len());
        assert!(
            bytes.into_iter().eq(bytes_of(number).take(found.len())),
            "window {number} differs"
        );
        Ok(())
    }

    /// What a server does with a window, or with a copy of it.
    pub fn read_window(
        &self,
        (block, name): (Option<Block>, Option<WindowName>),
        number: u64,
    ) -> Result<(), Over> {
        let received = match (block, name) {
            (Some(block), Some(name)) => {
                Some(Received { talk: self, name: BlockName::of_words(name.0), block })
            }
            (block, _) => {
                self.check_window(block.as_ref(), number)?;
                None
            }
        };
        if let Some(received) = &received {
            self.check_window(Some(&received.block), number)?;
        }
        let message = self.exchange(Some((tag::SEEN, &[number], &mut None)))?;
        assert_eq!((message.tag, message.words[0]), (tag::CHANGED, number));
        if let Some(received) = received {
            self.check_window(received.fresh()?.as_ref(), number + 1)?;
            count(Count::WindowsRead);
        }
        Ok(())
    }

    /// What a caller does.
    pub fn share(&self, number: u64, pages: usize) -> Result<(), Over> {
        let window = Window::new(pages);
        window.fill(number);
        let mut block = Some(Block::shared(window.clone()));
        let seen = self.exchange(Some((tag::SHARE, &[number], &mut block)))?;
        assert_eq!((seen.tag, seen.words[0]), (tag::SEEN, number));
        window.fill(number + 1);
        let kept = self.exchange(Some((tag::CHANGED, &[number], &mut None)))?;
        assert_eq!((kept.tag, kept.words[0]), (tag::KEPT, number));
        Ok(())
    }
}
