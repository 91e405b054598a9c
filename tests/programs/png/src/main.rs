//! Decodes PNG files for other programs. `./pen test servers.png` runs it: `png [NAME]`.
//!
//! It serves `png.v1` by NAME, by default `png`. A client gets its picture in strips, and asks for
//! each but the first, so that clients are served in turn, and each has one strip in memory.
//!
//! ```text
//!   Idle --file--> picture, strip --> Looking --more--> strip ... last_strip --> Idle
//!           \--> refused --> Idle        \--stop--> Idle
//! ```

use penumbra::channel::{Block, Bytes, Channel, Door, Error};
use penumbra::ready::{self, Interest};
use png_decoder::picture::{Picture, Refusal};
use png_decoder::pixels::Format;
use png_decoder::png_v1::{CONTRACT, message, server};

/// Clients at the same time. Further ones wait at the door.
const MOST: usize = 16;
/// The name that it serves if it gets none.
const NAME: &str = "png";

/// A conversation in which the client has the turn.
enum Client {
    Idle(server::Ready<Channel>),
    Looking(server::Looking<Channel>, Box<Picture>),
}

impl Client {
    const fn transport(&self) -> &Channel {
        match self {
            Client::Idle(conversation) => conversation.transport(),
            Client::Looking(conversation, _) => conversation.transport(),
        }
    }

    /// Answers what it has sent. Returns the conversation, if it continues.
    fn answer(self) -> Result<Option<Client>, Error> {
        use server::received::{Looking, Ready};
        match self {
            Client::Idle(conversation) => match conversation.receive()? {
                Ready::File { message, block, next } => begin(next, &message, block).map(Some),
                Ready::Closed => Ok(None),
            },
            Client::Looking(conversation, picture) => match conversation.receive()? {
                Looking::More { next, .. } => draw(next, picture).map(Some),
                Looking::Stop { next, .. } => Ok(Some(Client::Idle(next))),
                Looking::Closed => Ok(None),
            },
        }
    }
}

/// Begins with a file.
fn begin(
    conversation: server::Decoding<Channel>,
    wanted: &message::File,
    file: Block,
) -> Result<Client, Error> {
    let opened = match Format::from_number(wanted.format) {
        Some(format) => Picture::open(file, wanted.most_pixels, format),
        None => Err(Refusal { offset: 0, reason: "there is no such format".to_string() }),
    };
    match opened {
        Ok(picture) => {
            let (width, height) = picture.size();
            let about = message::Picture { width, height, strip_rows: picture.strip_rows() };
            draw(conversation.send_picture(&about)?, Box::new(picture))
        }
        Err(refusal) => conversation.send_refused(&refused(&refusal)).map(Client::Idle),
    }
}

/// Sends the next strip.
fn draw(
    conversation: server::Drawing<Channel>,
    mut picture: Box<Picture>,
) -> Result<Client, Error> {
    match picture.next_strip() {
        Ok(strip) if strip.is_last => {
            let about = message::LastStrip { first_row: strip.first_row };
            conversation.send_last_strip(&about, strip.pixels.into()).map(Client::Idle)
        }
        Ok(strip) => {
            let about = message::Strip { first_row: strip.first_row };
            let next = conversation.send_strip(&about, strip.pixels.into())?;
            Ok(Client::Looking(next, picture))
        }
        Err(refusal) => conversation.send_refused(&refused(&refusal)).map(Client::Idle),
    }
}

fn refused(refusal: &Refusal) -> message::Refused {
    let reason = Bytes::cut(refusal.reason.as_bytes());
    message::Refused { offset: refusal.offset, reason }
}

/// Serves clients for ever.
fn serve(door: &mut Door<'_>) -> Result<(), Error> {
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let ends = clients.iter().map(|client| client.transport().file());
        let mut what: Vec<Interest<'_>> = ends.map(Interest::Read).collect();
        if clients.len() < MOST {
            what.push(Interest::Read(door.file()));
        }
        let ready = ready::wait(&what, None)?;
        let is_asked = ready.contains(&clients.len());
        let all = clients.into_iter().enumerate();
        // A conversation with an error is over; the client finds out.
        clients = all
            .filter_map(|(index, client)| match ready.contains(&index) {
                true => client.answer().ok().flatten(),
                false => Some(client),
            })
            .collect();
        if is_asked {
            match door.accept() {
                Ok(channel) => clients.push(Client::Idle(server::start(channel))),
                // It left before it was accepted.
                Err(Error::Broken) => {}
                Err(why) => return Err(why),
            }
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let name = match &arguments[..] {
        [_] => NAME,
        [_, name] => name,
        _ => return Err("usage: png [NAME]".into()),
    };
    let mut door = Door::open(name, CONTRACT).map_err(|why| format!("{name}: {why}"))?;
    Ok(serve(&mut door)?)
}
