//! Records of measurements, from the console of a board to the documentation.
//!
//! ```text
//!   console --said--> name, value, unit --record--> JSON lines --> pen report
//!                                                       |
//!   benches/*.toml --benches--> bars, titles --figures--+--> docs/reference/figures.md
//! ```
//! - [`said`]  the lines that kernels and programs print
//! - [`traffic`]  what channels have carried, as kernels print it
//! - [`record`]  the format of record files
//! - [`number`]  numbers as people read them
//! - [`benches`]  the benchmarks that `benches/` defines
//! - [`figures`]  `pen figures`: the page of the latest figures
//!
//! Contract: nothing is measured here, and no board is started.

pub mod benches;
pub mod figures;
pub mod number;
pub mod record;
pub mod said;
pub mod traffic;
