//! The file service, as those see it who ask.

mod common;
mod handles;
mod hostile;
mod model;
mod paths;
mod pipes;
mod space;
