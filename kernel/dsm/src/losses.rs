//! Deaths that took pages, as the chip page has them (docs/design/dsm.md, "Such a death").

use base::id::DomainId;

/// Returns what domain `me` writes as its `settled` word when it begins to leave: the sum of all
/// losses, or `u64::MAX` if it does not know of each. `losses` are all domains, each with its last
/// epoch that ended with pages, or 0. `known` returns what `me` has been informed of about a peer:
/// its epoch, and whether that is over. Each loss is read once: what is checked is what counts.
pub fn settled(
    me: DomainId,
    losses: impl IntoIterator<Item = (DomainId, u64)>,
    known: impl Fn(DomainId) -> (u64, bool),
) -> u64 {
    let is_known = |id: DomainId, lost: u64| {
        let (epoch, is_over) = known(id);
        lost == 0 || id == me || epoch > lost || epoch == lost && is_over
    };
    let add = |sum, (id, lost)| if is_known(id, lost) { Some(sum + lost) } else { None };
    losses.into_iter().try_fold(0, add).unwrap_or(u64::MAX)
}
