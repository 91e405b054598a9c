//! Random bytes from the chip's generator: client of its driver.

use crate::services::Patience;
use crate::session::{Failure, Session};
use drivers::request::{Reply, Request, kind, told};

/// Returns random bytes.
pub fn bytes(session: &Session) -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    let request = Request { kind: kind::READ, length: bytes.len() as u32, ..Request::default() };
    let (driver, devices) = (&session.services.random, &session.kernel.devices);
    if !driver.is_local() {
        return Err(Failure::Failed("this kernel drives no random device"));
    }
    let endless = &Patience::ENDLESS;
    match devices.during(|| driver.ask_again(session, request, &mut bytes, endless)) {
        Ok(Some(Reply { told: told::DONE, filled: 32, .. })) => Ok(bytes),
        Ok(Some(Reply { told: told::DONE, .. })) => {
            let why = "the random device returned fewer bytes than requested; try again";
            Err(Failure::Failed(why))
        }
        Ok(_) => Err(Failure::Failed("the random device does not work")),
        Err(why) => Err(Failure::Failed(why.text())),
    }
}
