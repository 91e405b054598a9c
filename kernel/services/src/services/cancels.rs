//! Requests that are cancelled.
//!
//! Contract: a request that fails is not parked afterwards. Its home kernel may have parked it, and
//! then had no memory for the answer; or an earlier asking was parked, and this one was not sent. A
//! cancel needs no memory of this kernel.

use super::{Caller, Served, ServiceFailure};
use base::id::DomainId;
use kernel_platform::peers::Procedure;
use share::{Service, Shareable, Token, codec};

/// Bytes of a message that carries no bulk.
const BARE: usize = 256;

impl<S: Service + Shareable> Served<S> {
    /// Cancels a request that has failed if it may be parked. Returns why it has failed.
    #[cold]
    pub(super) fn failed(
        &self,
        caller: &Caller,
        token: Token,
        request: S::Request,
        why: ServiceFailure,
    ) -> ServiceFailure {
        if why.leaves_requests(self.mode) {
            // Fails if a home that has the state has died or restarted: it knows no request then.
            let _ = self.cancel(caller, token, request);
        }
        why
    }

    /// Has the home kernel cancel a request.
    pub(super) fn send_cancel(
        &self,
        caller: &Caller,
        home: DomainId,
        token: Token,
        request: &S::Request,
    ) -> Result<(), ServiceFailure> {
        const { assert!(size_of::<codec::Head>() + size_of::<S::Request>() <= BARE) };
        let (mut message, mut back) = ([0; BARE], [0; BARE]);
        let about = (self.index, codec::kind::CANCEL, token);
        let bytes = codec::pack::<S>(about, request, &[], &mut message);
        let bytes = bytes.ok_or(ServiceFailure::Nonsense)?;
        let answered = caller.call(home, Procedure::Serve, &message[..bytes], &mut back);
        let answered = answered.map_err(ServiceFailure::Home)?;
        let answer = codec::unpack_answer::<S>(&back[..answered], &mut []);
        answer.map(|_| ()).ok_or(ServiceFailure::Nonsense)
    }
}
