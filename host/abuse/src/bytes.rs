//! Reads an input from the front. At the end it yields zeros, so any bytes are an input.

/// The rest of an input.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// Reads `bytes`, at most `most` of them.
    pub fn new(bytes: &'a [u8], most: usize) -> Bytes<'a> {
        Bytes(&bytes[..bytes.len().min(most)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Returns true once in `in_` times.
    pub fn once_in(&mut self, in_: u8) -> bool {
        self.byte().is_multiple_of(in_)
    }

    /// Returns a number below `bound`, which is 1 to 65,536.
    pub fn below(&mut self, bound: usize) -> usize {
        let low = usize::from(self.byte());
        if bound <= 256 { low % bound } else { (low | usize::from(self.byte()) << 8) % bound }
    }

    pub fn u32(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    pub fn u64(&mut self) -> u64 {
        u64::from(self.u32()) | u64::from(self.u32()) << 32
    }

    /// Returns a number of `bits` bits: an edge, a small one, or any.
    pub fn number(&mut self, bits: u32) -> u64 {
        let all = u64::MAX >> (64 - bits);
        let value = match self.byte() % 8 {
            0 => 0,
            1 => all,
            2 => (all >> 1) + u64::from(self.byte() % 3),
            3 => (1 << (u32::from(self.byte()) % bits)) - u64::from(self.byte() % 2),
            4 | 5 => u64::from(self.byte()),
            6 => u64::from(self.u32()),
            _ => self.u64(),
        };
        value & all
    }

    /// Takes up to `count` bytes.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
