//! An example: starts `greet-server` on a kernel, and lets it greet names, over a channel.
//! docs/tutorial/two-programs.md explains it.

#[rustfmt::skip]
#[allow(dead_code, reason = "this program is the client only")]
mod greet_v1;

use greet_v1::{client, message};
use penumbra::Command;
use penumbra::channel::{Bytes, Channel};

/// Where the server has its end.
const END: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let kernel = words.next().ok_or("usage: greet KERNEL NAME...")?.parse()?;
    let (here, there) = Channel::pair(greet_v1::CONTRACT)?;
    let server = Command::new("/bin/greet-server").kernel(kernel);
    let server = server.file(there.descriptor(), END).spawn()?;
    // The server has it now.
    drop(there);
    let mut idle = client::start(here);
    for name in words {
        let text = Bytes::new(name.as_bytes()).ok_or("a name has at most 31 bytes")?;
        let client::received::Asked::Greeting { message, next } =
            idle.call_name(&message::Name { text })?;
        let text = String::from_utf8_lossy(message.text.as_slice());
        println!("{text}, says kernel {}", message.kernel);
        idle = next;
    }
    idle.close();
    server.wait()?;
    Ok(())
}
