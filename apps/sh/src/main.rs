//! The program `sh`: `sh [-OPTIONS] [-i] [-c TEXT [NAME [ARGUMENT...]] | FILE [ARGUMENT...]]`.
//!
//! Without a text or a file it reads standard input: a terminal line by line, with editing;
//! anything else to its end, as one script.

#[cfg(target_os = "wasi")]
mod terminal;

#[cfg(target_os = "wasi")]
fn main() -> std::process::ExitCode {
    program::main()
}

/// Only a stub: the shell needs Penumbra.
#[cfg(not(target_os = "wasi"))]
fn main() -> std::process::ExitCode {
    eprintln!("sh runs on Penumbra");
    std::process::ExitCode::FAILURE
}

#[cfg(target_os = "wasi")]
mod program {
    //! The command line.

    use crate::terminal;
    use penumbra::{File, Open};
    use sh::Shell;
    use sh::wasi::Wasi;
    use std::process::ExitCode;

    /// Descriptors that may be open at the start, besides 0, 1, 2 and the preopened ones.
    const MORE: std::ops::Range<u32> = 5..32;

    /// The parsed command line.
    #[derive(Default)]
    struct Line {
        options: String,
        interactive: bool,
        text: Option<String>,
        /// The descriptor with the text of a parent shell.
        resume: Option<u32>,
        rest: Vec<String>,
    }

    fn line(arguments: impl Iterator<Item = String>) -> Result<Line, String> {
        let (mut line, mut arguments) = (Line::default(), arguments.skip(1).peekable());
        let mut text = false;
        while let Some(word) = arguments.next_if(|word| word.starts_with('-') && word.len() > 1) {
            match word.as_str() {
                "--" => break,
                "--resume" => {
                    let number = arguments.next().and_then(|n| n.parse().ok());
                    line.resume = Some(number.ok_or("--resume requires a descriptor")?);
                }
                letters => {
                    for letter in letters.chars().skip(1) {
                        match letter {
                            'c' => text = true,
                            'i' => line.interactive = true,
                            's' | 'l' => {}
                            letter => line.options.push(letter),
                        }
                    }
                }
            }
        }
        if text {
            line.text = Some(arguments.next().ok_or("-c requires a text")?);
        }
        line.rest = arguments.collect();
        Ok(line)
    }

    pub fn main() -> ExitCode {
        match line(std::env::args()).and_then(run) {
            Ok(code) => ExitCode::from((code & 0xff) as u8),
            Err(why) => {
                eprintln!("sh: {why}");
                ExitCode::from(2)
            }
        }
    }

    fn run(line: Line) -> Result<u32, String> {
        let input = File::lent(0);
        let whole = line.text.is_none() && line.resume.is_none() && line.rest.is_empty();
        let interactive = line.interactive || (whole && input.is_terminal());
        let (text, name, rest) = source(&line, interactive)?;
        let taken = |number: &u32| line.resume != Some(*number) && File::exists(*number);
        let numbers = (0..3).chain(MORE.filter(taken));
        let files = numbers.map(|number| (number, File::adopt(number))).collect();
        let mut shell = Shell::new(Wasi::new(), &name, rest, files, std::env::vars());
        for letter in line.options.chars() {
            if !shell.set_option(letter) {
                return Err(format!("-{letter}: no such option"));
            }
        }
        if interactive {
            return Ok(terminal::run(shell, &input));
        }
        Ok(shell.run(&text))
    }

    /// Returns the text, `$0`, and the arguments after it.
    fn source(line: &Line, interactive: bool) -> Result<(String, String, Vec<String>), String> {
        let sh = "sh".to_string();
        let first = line.rest.first().cloned();
        let behind = line.rest.get(1..).unwrap_or_default().to_vec();
        if let Some(number) = line.resume {
            return Ok((read(&File::adopt(number))?, sh, Vec::new()));
        }
        if let Some(text) = &line.text {
            return Ok((text.clone(), first.unwrap_or(sh), behind));
        }
        match first {
            Some(path) => {
                let file = open(&path).map_err(|error| format!("{path}: {error}"))?;
                Ok((read(&file)?, path, behind))
            }
            None if interactive => Ok((String::new(), sh, Vec::new())),
            None => Ok((read(&File::lent(0))?, sh, Vec::new())),
        }
    }

    fn open(path: &str) -> Result<File, penumbra::Errno> {
        let folder = std::env::var("PWD").unwrap_or_default();
        let full = match path.starts_with('/') {
            true => path.to_string(),
            false => format!("{}/{path}", folder.trim_end_matches('/')),
        };
        File::open(&full, Open::READ)
    }

    fn read(file: &File) -> Result<String, String> {
        let (mut bytes, mut room) = (Vec::new(), vec![0; 16 * 1024]);
        loop {
            match file.read(&mut room) {
                Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                Ok(read) => bytes.extend_from_slice(room.get(..read).unwrap_or_default()),
                Err(error) => return Err(format!("cannot read the script: {error}")),
            }
        }
    }
}
