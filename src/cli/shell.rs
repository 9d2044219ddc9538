//! `vramlab completions` and `vramlab man`: for shells and manual readers.

use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::folder::Folder;
use super::output::Output;
use super::{Cli, CliError};

/// Print completions for a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

/// Print the manual as roff, or write one page a command into a folder
#[derive(Debug, Args)]
pub struct Man {
    /// The folder [default: the main page to standard output]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Completions {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "vramlab", &mut text);
        output.text(&String::from_utf8_lossy(&text))
    }
}

impl Man {
    /// Runs the command.
    pub fn run(self, output: &mut Output) -> Result<(), CliError> {
        let mut command = Cli::command();
        command.build();
        let Some(path) = self.folder else {
            let page = page(&command).map_err(CliError::Stdout)?;
            return output.text(&String::from_utf8_lossy(&page));
        };
        let folder = Folder::new(&path)?;
        write_pages(&folder, &command, "vramlab")
    }
}

/// The page of a command, and those of the commands below it.
fn write_pages(folder: &Folder, command: &clap::Command, name: &str) -> Result<(), CliError> {
    let file = format!("{name}.1");
    let page = page(command).map_err(|error| CliError::write(folder.path().join(&file), error))?;
    folder.file(&file, |out| out.write_all(&page))?;
    let below = command.get_subcommands();
    below
        .filter(|below| below.get_name() != "help")
        .try_for_each(|below| write_pages(folder, below, &format!("{name}-{}", below.get_name())))
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}
