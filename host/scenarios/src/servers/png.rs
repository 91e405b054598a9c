//! A server that makes thumbnails of PNG files, and the program that decodes them for it, kept
//! apart by one line of the server's manifest. curl is its client; what it gets is compared with
//! what the host makes of the same pixels by simpler means.

mod pictures;

use super::curl::Client;
use super::{Serving, Started, TERMINATED, begin, needs, serves, terminate};
use crate::disk::off_and_clean;
use crate::peers::wait_for;
use crate::programs::{KILLED, LOST, awaited, pid_of, wrong};
use crate::threads::{put, put_with};
use crate::{Failure, PATIENCE, Rig};
use abi::soc::state;
use deploy::exec::{Captured, Line};
use deploy::place::{Answer, ask};
use deploy::transfer::Stream;
use pictures::{Kind, Picture};
use png::{BitDepth, ColorType, Filter};

/// Programs of apps/corpus.toml; the second one starts with a listener.
const DECODER: &str = "png";
const SERVER: &str = "upload";
const PORT: u16 = 80;
/// The name that the decoder serves, and that of a second one.
const NAME: &str = "png";
const OTHER: &str = "png-2";
/// Clients at the same time, as many as in the paper on Helios.
const CLIENTS: usize = 8;
/// What the server makes if a client does not say.
const SIZE: usize = 64;
/// Largest file, in bytes.
const LARGEST: usize = 4 << 20;
const NO_DECODER: &str = "the decoder: no program serves the name png\n";

/// Colours, bits of a sample, filter (`None`: interlaced), and size.
type Described = (ColorType, BitDepth, Option<Filter>, (usize, usize));

/// Kinds of files, with sizes: one row, one column, several strips, a file that curl sends only
/// after the server has asked for it.
const PICTURES: [Described; 17] = {
    use BitDepth::{Eight, Four, One, Sixteen, Two};
    use ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
    use Filter::{Adaptive, Avg, NoFilter, Paeth, Sub, Up};
    [
        (Grayscale, One, Some(NoFilter), (33, 20)),
        (Grayscale, Two, None, (65, 33)),
        (Grayscale, Eight, Some(Sub), (200, 150)),
        (Grayscale, Sixteen, Some(Up), (64, 70)),
        (GrayscaleAlpha, Eight, Some(Avg), (100, 100)),
        (GrayscaleAlpha, Sixteen, Some(Paeth), (50, 41)),
        (Indexed, One, Some(NoFilter), (9, 9)),
        (Indexed, Four, Some(NoFilter), (90, 61)),
        (Indexed, Eight, None, (131, 12)),
        (Rgb, Eight, Some(Adaptive), (1, 1)),
        (Rgb, Eight, Some(Paeth), (640, 480)),
        (Rgb, Eight, None, (300, 97)),
        (Rgb, Sixteen, Some(Avg), (120, 90)),
        (Rgba, Eight, Some(Adaptive), (320, 240)),
        (Rgba, Sixteen, Some(Sub), (64, 64)),
        (Rgb, Eight, Some(Up), (3, 5_000)),
        (Grayscale, Sixteen, Some(NoFilter), (1_200, 700)),
    ]
};

/// The server, with its client.
struct Front {
    server: Serving,
    client: Client,
}

impl Front {
    /// Starts the server where its manifest says, which must be this kernel.
    fn open(rig: &mut Rig, kernel: &str) -> Result<Front, Failure> {
        starts_on(rig, kernel)?;
        let server = Serving::place(rig, kernel, SERVER, PORT)?;
        let client = Client::new(rig, server.host_port)?;
        Ok(Front { server, client })
    }

    fn close(self, rig: &mut Rig) -> Result<(), Failure> {
        ended(self.server.end(rig)?, TERMINATED)
    }

    /// Uploads a file. Returns the status and the body.
    fn upload(&self, file: &[u8], path: &str) -> Result<(String, Vec<u8>), Failure> {
        std::fs::write(self.client.folder.join("picture.png"), file)?;
        self.client.get(path, &["--data-binary", "@picture.png"])
    }

    /// Uploads a picture, and compares its thumbnail.
    fn shrinks(&self, picture: &Picture, what: &str) -> Result<(), Failure> {
        for (path, size, is_grey) in [
            ("/thumbnail.ppm".to_string(), SIZE, false),
            ("/thumbnail.pgm?size=7".to_string(), 7, true),
            ("/thumbnail.ppm?size=1024".to_string(), 1024, false),
        ] {
            let (status, body) = self.upload(&picture.file, &path)?;
            if status != "200" || body != picture.thumbnail(size, is_grey) {
                let said = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
                return Err(wrong(&format!("{what}: POST {path}"), (status, body.len(), said)));
            }
        }
        Ok(())
    }

    /// Uploads a file that must be answered with this status, and a text with these words.
    fn refuses(&self, file: &[u8], status: &str, words: &str) -> Result<(), Failure> {
        let found = self.upload(file, "/thumbnail.ppm")?;
        let said = String::from_utf8_lossy(&found.1).into_owned();
        match found.0 == status && said.contains(words) {
            true => Ok(()),
            false => Err(wrong(&format!("instead of {status} {words:?}"), (found.0, said))),
        }
    }
}

/// The board says that the server would start on this kernel.
fn starts_on(rig: &Rig, kernel: &str) -> Result<Answer, Failure> {
    let answer = Stream::open(&rig.instance).and_then(|stream| ask(stream, SERVER));
    let answer = answer.map_err(|why| wrong("the question", format!("{why:#}")))?;
    match answer.kernel.as_deref() == Some(kernel) {
        true => Ok(answer),
        false => Err(wrong(&format!("the server would not start on {kernel}"), answer)),
    }
}

fn ended(found: Captured, code: u8) -> Result<(), Failure> {
    let is_right = found.code == code && found.out.is_empty() && found.err.is_empty();
    if is_right { Ok(()) } else { Err(wrong(&format!("instead of the end by {code}"), found)) }
}

fn close(rig: &mut Rig, (running, kernel): Started) -> Result<(), Failure> {
    terminate(rig, &kernel, DECODER)?;
    ended(running.end()?, TERMINATED)
}

fn install(rig: &mut Rig) -> Result<(), Failure> {
    needs(&["curl"])?;
    begin(rig, None)?;
    [DECODER, SERVER].iter().try_for_each(|program| put(rig, program))
}

fn picture(index: usize) -> Picture {
    let (colours, depth, filter, size) = PICTURES[index];
    Picture::new(index as u64 + 1, Kind { colours, depth, filter }, size)
}

/// Starts a decoder.
fn decoder(rig: &mut Rig, kernel: &str) -> Result<Started, Failure> {
    serves(rig, Line::on(kernel, DECODER, &[]), NAME)
}

/// With the decoder on each kernel in turn, and the server on the other one: pictures of all kinds,
/// several clients, files that are refused, and a decoder that is killed. With the other sign in
/// its manifest, the server starts beside the decoder.
pub fn png(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    for (kernel, other) in [("main", "shadow"), ("shadow", "main")] {
        let decoder = decoder(rig, kernel)?;
        let front = Front::open(rig, other)?;
        for (index, about) in PICTURES.iter().enumerate() {
            front.shrinks(&picture(index), &format!("{about:?}, decoded on {kernel}"))?;
        }
        many(&front)?;
        refusals(&front)?;
        let decoder = killed(rig, &front, decoder)?;
        front.close(rig)?;
        close(rig, decoder)?;
    }
    signs(rig)?;
    off_and_clean(rig)
}

/// The kernel of the decoder dies: clients have to try again, until another decoder runs, on
/// whatever kernel.
pub fn png_lost(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    let (running, _) = decoder(rig, "shadow")?;
    let front = Front::open(rig, "main")?;
    front.shrinks(&picture(4), "before")?;
    let epoch = wait_for(rig, "ran", |_, now| now == state::RUNNING)?;
    rig.kill("shadow")?;
    let lost = running.end()?;
    if lost.code != LOST {
        return Err(wrong("the decoder whose kernel died", lost));
    }
    front.refuses(&picture(4).file, "503", "the decoder: ")?;
    let decoder = decoder(rig, "main")?;
    front.shrinks(&picture(4), "after")?;
    wait_for(rig, "came back", |next, now| next == epoch + 1 && now == state::RUNNING)?;
    front.close(rig)?;
    close(rig, decoder)
}

/// On three kernels: the server keeps away from one decoder, and from two.
pub fn png_trio(rig: &mut Rig) -> Result<(), Failure> {
    install(rig)?;
    let one = decoder(rig, "umbra")?;
    starts_on(rig, "main")?;
    let other = serves(rig, Line::on("main", DECODER, &[OTHER]), OTHER)?;
    let front = Front::open(rig, "shadow")?;
    front.shrinks(&picture(10), "decoded on umbra")?;
    many(&front)?;
    front.close(rig)?;
    close(rig, one)?;
    close(rig, other)?;
    off_and_clean(rig)
}

/// Several clients at the same time, each with another size, then several pictures on one
/// connection.
fn many(front: &Front) -> Result<(), Failure> {
    let picture = picture(10);
    std::fs::write(front.client.folder.join("picture.png"), &picture.file)?;
    let url = front.client.url(&format!("/thumbnail.ppm?size=[1-{CLIENTS}]"));
    let most = CLIENTS.to_string();
    let parallel = ["--parallel", "--parallel-immediate", "--parallel-max", &most];
    let output = ["--no-progress-meter", "--write-out", "%{num_connects} ", "--output", "made-#1"];
    let posted = ["--data-binary", "@picture.png", url.as_str()];
    for (options, connections) in
        [(&parallel[..], "1 ".repeat(CLIENTS)), (&[], "0 ".repeat(CLIENTS - 1))]
    {
        let made = front.client.run(&[options, &output, &posted].concat())?;
        if !made.ends_with(&connections) {
            return Err(wrong("connections", made));
        }
        for size in 1..=CLIENTS {
            let path = front.client.folder.join(format!("made-{size}"));
            if std::fs::read(&path)? != picture.thumbnail(size, false) {
                return Err(wrong("one of many clients has another picture", path));
            }
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Files that are no pictures, or too large, and requests that are not understood.
fn refusals(front: &Front) -> Result<(), Failure> {
    let good = picture(10).file;
    let mut damaged = good.clone();
    let middle = good.len() / 2;
    damaged[middle] ^= 1;
    let huge = Picture::blank(ColorType::Grayscale, BitDepth::One, (4_096, 4_097));
    let too_large = vec![0; LARGEST + 1];
    let too_large_says = format!("{} bytes; at most {LARGEST}\n", LARGEST + 1);
    for (file, status, words) in [
        (&b"GIF89a is another format"[..], "422", "byte 0: "),
        (b"", "422", "byte 0: "),
        (&good[..middle], "422", ": the file ends too early\n"),
        (&good[..good.len() - 1], "422", ": the file ends too early\n"),
        (&damaged, "422", "byte "),
        (&huge, "422", ": 4096 x 4097; at most 16777216 pixels\n"),
        (&too_large, "413", &too_large_says),
    ] {
        front.refuses(file, status, words)?;
    }
    // It does not wait for an answer before it sends everything.
    let found = front
        .client
        .get("/thumbnail.ppm", &["--header", "Expect:", "--data-binary", "@picture.png"])?;
    if found != ("413".to_string(), too_large_says.into_bytes()) {
        return Err(wrong("a client that does not wait", found));
    }
    for (path, options, status) in [
        ("/thumbnail.ppm", &[][..], "405"),
        ("/", &[], "404"),
        ("/thumbnail.ppm?size=0", &["--data", "a"], "400"),
        ("/thumbnail.ppm", &["--data", "a", "--header", "Transfer-Encoding: chunked"], "411"),
    ] {
        let found = front.client.get(path, options)?;
        if found.0 != status {
            return Err(wrong(path, found));
        }
    }
    Ok(())
}

/// The decoder is killed while it has a picture: its client has to try again, as have others
/// until another decoder runs. Returns that one.
fn killed(rig: &mut Rig, front: &Front, decoder: Started) -> Result<Started, Failure> {
    let (running, kernel) = decoder;
    let pid = pid_of(rig, &kernel, DECODER)?;
    // Takes seconds.
    let slow = Picture::blank(ColorType::Rgba, BitDepth::Sixteen, (4_000, 4_000));
    std::fs::write(front.client.folder.join("slow.png"), slow)?;
    let client = &front.client;
    let found = std::thread::scope(|scope| {
        let options = ["--data-binary", "@slow.png"];
        let uploading = scope.spawn(move || client.get("/thumbnail.ppm", &options));
        has_file(rig, &kernel)?;
        rig.ask("main", &format!("kill {pid} KILL"), PATIENCE)?;
        uploading.join().expect("it does not panic")
    })?;
    let said = String::from_utf8_lossy(&found.1);
    if found.0 != "503" || !said.starts_with("the decoder: ") {
        return Err(wrong("an upload whose decoder was killed", (found.0, said)));
    }
    ended(running.end()?, KILLED)?;
    front.refuses(&picture(4).file, "503", NO_DECODER)?;
    let decoder = self::decoder(rig, &kernel)?;
    front.shrinks(&picture(4), "after the kill")?;
    Ok(decoder)
}

/// Waits until the decoder on a kernel has a client.
fn has_file(rig: &mut Rig, kernel: &str) -> Result<(), Failure> {
    let is_end = |line: &str| {
        line.contains(" server ")
            && line.contains(" held ")
            && line.ends_with(&format!(" {DECODER}"))
    };
    let late = |said| wrong("no client of the decoder", said);
    let has_end = awaited(PATIENCE, late, || {
        let said = rig.ask("main", &format!("on {kernel} traffic"), PATIENCE)?;
        let has_end = said.lines().any(is_end);
        Ok((said, has_end))
    });
    has_end.map(|_| ())
}

/// What one line of the manifest does: apart from the decoder, as before, beside it.
fn signs(rig: &mut Rig) -> Result<(), Failure> {
    let on_main = decoder(rig, "main")?;
    let answer = starts_on(rig, "shadow")?;
    if !answer.explanation.contains("png.v1: apart (-1); served on main by process ") {
        return Err(wrong("the reason", answer));
    }
    with_line(rig, "")?;
    starts_on(rig, "main")?;
    close(rig, on_main)?;
    with_line(rig, "endpoints = [{ contract = \"png.v1\", affinity = \"positive\" }]")?;
    let on_shadow = decoder(rig, "shadow")?;
    let front = Front::open(rig, "shadow")?;
    front.shrinks(&picture(4), "beside the decoder")?;
    front.close(rig)?;
    close(rig, on_shadow)
}

/// Gives the server a manifest with another line about places.
fn with_line(rig: &Rig, line: &str) -> Result<(), Failure> {
    let manifest = rig.instance.path("upload.toml");
    std::fs::write(&manifest, format!("listen = [\"tcp:{PORT}\"]\nnet = []\n{line}\n"))?;
    put_with(rig, SERVER, Some(&manifest))
}
