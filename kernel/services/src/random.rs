//! Random bytes from the chip's generator: client of its driver.

use crate::services::ServiceFailure;
use crate::session::{Failure, Session};
use drivers::request::{Request, kind, told};

/// Returns random bytes.
pub fn bytes(session: &Session) -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    let request = Request { kind: kind::READ, length: bytes.len() as u32, at: 0 };
    let (driver, kernel) = (&session.services.random, session.kernel);
    if !driver.is_local() {
        return Err(Failure::Failed("this kernel drives no random device"));
    }
    loop {
        let asked = kernel.devices.during(|| driver.ask(session, request, &mut bytes));
        match asked {
            Ok(reply) if reply.told == told::DONE && reply.filled == 32 => return Ok(bytes),
            Ok(reply) if reply.told == told::DONE => {
                let why = "the random device returned fewer bytes than requested; try again";
                return Err(Failure::Failed(why));
            }
            Ok(_) => return Err(Failure::Failed("the random device does not work")),
            // The state was lost with a kernel; the driver opens the device again.
            Err(ServiceFailure::Restarted) => {}
            Err(why) => return Err(Failure::Failed(why.text())),
        }
    }
}
