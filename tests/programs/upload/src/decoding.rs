//! One conversation with the program that decodes: a file there, strips back.
//!
//! Contract: nothing here waits. If that program is not there, ends meanwhile, or sends what does
//! not fit, the client has to try again; it is looked for again with the next file.

use crate::http::{Answer, Wanted};
use crate::thumbnail::Thumbnail;
use penumbra::channel::{Channel, Error, connect};
use penumbra::{Errno, File};
use png_decoder::png_v1::{CONTRACT, client, message};

/// Largest picture, in pixels.
const MOST_PIXELS: u32 = 16 << 20;

/// A conversation in which the other side has the turn.
pub struct Decoding {
    turn: Turn,
    wanted: Wanted,
}

enum Turn {
    /// It reads the file.
    Asked(client::Decoding<Channel>),
    /// It decodes the next strip.
    Drawing(client::Drawing<Channel>, Thumbnail),
}

/// What comes of a message.
pub enum Progress {
    /// It continues.
    Waits(Decoding),
    /// It is over.
    Done(Answer),
}

fn failed(why: impl std::fmt::Display) -> Answer {
    Answer::text(503, &format!("the decoder: {why}"))
}

/// Returns the answer for a file that the decoder refuses.
fn refused(message: &message::Refused) -> Answer {
    let is_text = |byte: &&u8| byte.is_ascii_graphic() || **byte == b' ';
    let words: String =
        message.reason.as_slice().iter().filter(is_text).map(|it| char::from(*it)).collect();
    Answer::text(422, &format!("byte {}: {words}", message.offset))
}

impl Decoding {
    /// Gives a file to the program that serves a name.
    pub fn begin(name: &str, file: Vec<u8>, wanted: Wanted) -> Result<Decoding, Answer> {
        let channel = connect(name, CONTRACT).map_err(|why| match why {
            Errno::NOENT => failed(format!("no program serves the name {name}")),
            why => failed(why),
        })?;
        let about = message::File { most_pixels: MOST_PIXELS, format: wanted.format.number() };
        let asked = client::start(channel).send_file(&about, file.into()).map_err(failed)?;
        Ok(Decoding { turn: Turn::Asked(asked), wanted })
    }

    /// Returns what it waits for.
    pub const fn file(&self) -> &File {
        match &self.turn {
            Turn::Asked(conversation) => conversation.transport().file(),
            Turn::Drawing(conversation, _) => conversation.transport().file(),
        }
    }

    /// Takes a message that is there.
    pub fn proceed(self) -> Progress {
        let wanted = self.wanted;
        let received = match self.turn {
            Turn::Asked(conversation) => begun(conversation, wanted),
            Turn::Drawing(conversation, made) => drawn(conversation, made, wanted),
        };
        received.unwrap_or_else(|why| Progress::Done(failed(why)))
    }
}

fn begun(asked: client::Decoding<Channel>, wanted: Wanted) -> Result<Progress, Error> {
    match asked.receive()? {
        client::received::Decoding::Refused { message, .. } => {
            Ok(Progress::Done(refused(&message)))
        }
        client::received::Decoding::Picture { message, next } => {
            let message::Picture { width, height, .. } = message;
            let made = Thumbnail::new(width, height, wanted.format, wanted.size);
            Ok(match made {
                Some(made) => Progress::Waits(Decoding { turn: Turn::Drawing(next, made), wanted }),
                None => Progress::Done(failed("it sends an empty picture")),
            })
        }
    }
}

fn drawn(
    drawing: client::Drawing<Channel>,
    mut made: Thumbnail,
    wanted: Wanted,
) -> Result<Progress, Error> {
    use client::received::Drawing::{LastStrip, Refused, Strip};
    let does_not_fit = || Progress::Done(failed("it sends a strip that does not fit"));
    Ok(match drawing.receive()? {
        Refused { message, .. } => Progress::Done(refused(&message)),
        Strip { message, block, next } if made.add(message.first_row, &block) => {
            let turn = Turn::Drawing(next.send_more(&message::More {})?, made);
            Progress::Waits(Decoding { turn, wanted })
        }
        LastStrip { message, block, next } if made.add(message.first_row, &block) => {
            next.close();
            let picture = made.end().map(|made| Answer::picture(made, wanted.format));
            picture.map_or_else(does_not_fit, Progress::Done)
        }
        Strip { .. } | LastStrip { .. } => does_not_fit(),
    })
}
