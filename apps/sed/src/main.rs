//! The `main` of uutils' sed, for one tool by one name.

fn main() {
    uucore::panic::mute_sigpipe_panic();
    std::process::exit(uutils::sed::uumain(std::env::args_os()));
}
