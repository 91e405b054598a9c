//! Tests of the file service through its requests.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
mod delegated;
mod ext2;
mod handles;
mod held;
mod hostile;
mod late;
mod model;
mod paths;
mod pipes;
mod private;
mod quotas;
mod served;
mod servers;
mod space;
mod terminals;
