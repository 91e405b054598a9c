//! The unsafe step from an audited page table to a running one.

use abi::boot::Blob;
use arch::mmu::PageTable;
use base::id::DomainId;

use crate::mapping::{Audit, Violation, audit};
use crate::set::BlockSet;

/// Switches this core to `table` if it passes the audit: then all code, data and stacks of the
/// running image keep their addresses, and no rule is broken.
pub fn activate(table: &PageTable, blob: &Blob, domain: DomainId) -> Result<Audit, Violation> {
    let audit = audit(table, blob, domain, &BlockSet::new())?;
    // SAFETY: `kernel_table` mapped the image where it runs, and the audit found no rule broken.
    unsafe { table.activate() };
    Ok(audit)
}
