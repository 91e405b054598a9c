//! The soc's log: sentences with the time since its start, to a file; warnings to stderr too.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

struct Logger {
    file: Mutex<File>,
    start: Instant,
}

impl log::Log for Logger {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }

    fn log(&self, record: &log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let time = self.start.elapsed();
        let (s, us) = (time.as_secs(), time.subsec_micros());
        let line = format!("[{s:5}.{us:06}] {:5} {}\n", record.level(), record.args());
        // If the log cannot be written, there is no other place to report it.
        if let Ok(mut file) = self.file.lock() {
            let _ = file.write_all(line.as_bytes());
        }
        if record.level() <= log::Level::Warn {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }

    fn flush(&self) {}
}

/// Sends log records of the soc and its libraries to `file`. Called once per process.
pub fn start(file: File, start: Instant) -> Result<(), log::SetLoggerError> {
    log::set_boxed_logger(Box::new(Logger { file: Mutex::new(file), start }))?;
    log::set_max_level(log::LevelFilter::Info);
    Ok(())
}
