//! Creates the values that a board is given at start (`abi::boot::BootSecrets`): the key that seals
//! its programs, a seed for its random numbers, and the time of day.
//!
//! Only the user that started the board can read them. The key lives as long as the board's run
//! folder, which also keeps the disks with sealed programs; the seed is new at each start. In a
//! reproducible run all values are constants.

use crate::instance::{Instance, InstanceError};
use crate::run_files::KEY_FILE;
use abi::boot::BootSecrets;
use anyhow::Context;
use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// For reproducible runs. Nothing in them is secret, because all of their contents are known.
pub const EXACT: BootSecrets = BootSecrets {
    program_key: *b"a key that all exact runs share.",
    seed: *b"seed of numbers in exact runs...",
    // The first second of 2026.
    begun: 1_767_225_600_000_000_000,
};

impl Instance {
    /// Returns the values for this start, and writes them to the run folder. `exact`: constants.
    pub fn give(&self, exact: bool) -> Result<BootSecrets, InstanceError> {
        if exact {
            self.replace_key(&EXACT.program_key)?;
            return Ok(EXACT);
        }
        let program_key = self.lasting_key()?;
        let seed = random().map_err(|e| InstanceError::File(self.path(KEY_FILE), e))?;
        let begun = now().map_err(|e| InstanceError::File(self.path(KEY_FILE), e))?;
        Ok(BootSecrets { program_key, seed, begun })
    }

    /// Returns the key of this folder. Creates a new one if there is none, or if others can read
    /// it.
    pub fn lasting_key(&self) -> Result<[u8; 32], InstanceError> {
        if let Ok(key) = self.program_key()
            && key != EXACT.program_key
        {
            return Ok(key);
        }
        let key = random().map_err(|e| InstanceError::File(self.path(KEY_FILE), e))?;
        self.make_folder()?;
        self.replace_key(&key)?;
        Ok(key)
    }

    fn replace_key(&self, key: &[u8; 32]) -> Result<(), InstanceError> {
        let path = self.path(KEY_FILE);
        match std::fs::remove_file(&path) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(InstanceError::File(path, why))
            }
            _ => self.write_secret(KEY_FILE, key),
        }
    }

    /// Creates a file that only its owner can read.
    pub fn write_secret(&self, name: &str, bytes: &[u8]) -> Result<(), InstanceError> {
        let path = self.path(name);
        let file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(bytes)).map_err(|e| InstanceError::File(path, e))
    }

    /// Returns the key that seals programs for the running board.
    pub fn program_key(&self) -> anyhow::Result<[u8; 32]> {
        let path = self.path(KEY_FILE);
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let key = <[u8; 32]>::try_from(bytes.as_slice());
        let wrong = || format!("{}: not a key of 32 bytes; start the board again", path.display());
        key.ok().with_context(wrong)
    }
}

fn random() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    // So few bytes are returned all at once, or not at all.
    if getrandom(&mut bytes[..], GetRandomFlags::empty())? != bytes.len() {
        return Err(io::Error::other("the host returned too few random bytes"));
    }
    Ok(bytes)
}

fn now() -> io::Result<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
    u64::try_from(since.as_nanos()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_folder_has_a_key_of_its_own_that_only_its_owner_reads() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, other] = folders.each_ref().map(|it| Instance::at(it.path().to_path_buf()));
        let (first, second) = (one.give(false).unwrap(), other.give(false).unwrap());
        assert_ne!(first.program_key, second.program_key);
        assert_ne!(first.seed, second.seed);
        assert_ne!(first.seed, first.program_key);
        let again = one.give(false).unwrap();
        assert_eq!(again.program_key, first.program_key);
        assert_ne!(again.seed, first.seed);
        assert!(first.begun > EXACT.begun - (1 << 60));
        assert_eq!(one.program_key().unwrap(), first.program_key);
        let mode = std::fs::metadata(one.path(KEY_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_board_that_never_ran_has_a_key_too() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::at(folder.path().join("run").join("new"));
        assert_eq!(instance.lasting_key().unwrap(), instance.program_key().unwrap());
    }

    #[test]
    fn exact_runs_are_given_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let instance = Instance::at(folder.path().to_path_buf());
        assert_eq!(instance.give(true).unwrap(), EXACT);
        assert_eq!(instance.program_key().unwrap(), EXACT.program_key);
        // That key is public, so no ordinary board may use it.
        assert_ne!(instance.give(false).unwrap().program_key, EXACT.program_key);
    }
}
