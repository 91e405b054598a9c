//! Mistakes that the specification finds.

/// A mistake of the table or of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// An end is reported to the next waiter, too.
    Twice,
    /// An end is stored without its status.
    NoStatus,
    /// The processes of a dead kernel stay.
    Kept,
    /// What a dead kernel had asked is executed after its death.
    Late,
    /// A kernel does not name its processes to a table that has lost its state.
    Unnamed,
    /// A kernel names a process whose end it has just reported, and does not report it again.
    Zombie,
    /// A table that has lost its state tells only kernels that had asked it for a task.
    Untold,
    /// It gives the same numbers again.
    SameNumbers,
    /// Begun does not return the signal.
    Missed,
    /// A kernel does not name a process that it has started itself meanwhile.
    Forgotten,
}

impl Broken {
    pub const ALL: [Broken; 10] = [
        Broken::Twice,
        Broken::NoStatus,
        Broken::Kept,
        Broken::Late,
        Broken::Unnamed,
        Broken::Zombie,
        Broken::Untold,
        Broken::SameNumbers,
        Broken::Missed,
        Broken::Forgotten,
    ];
}
