//! The command line: one file a subcommand.
//!
//! Results go to standard output, words about them to standard error. A closed pipe is
//! success. What can go wrong is a [`CliError`], whose kind decides the exit code.

mod args;
mod calibrate;
mod card;
mod charts;
mod compare;
mod doctor;
mod error;
mod explain;
mod fidelity;
mod fit;
mod folder;
mod load;
mod map;
mod merge;
mod output;
mod plan;
mod plot;
mod policy;
mod progress;
mod replay;
mod run;
mod serve;
mod shell;
mod sparkline;
mod table;
mod trace;
mod validate;

use std::panic;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use error::CliError;
use output::Output;

use crate::experiment::is_caught;
use crate::policy::Registry;

/// Replays recorded GPU memory traces against allocation policies, without a GPU.
#[derive(Debug, Parser)]
#[command(
    name = "vramlab",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 ok, 1 internal, 2 usage, 3 bad input, 5 a policy broke a rule,\n\
                  10 --fail-on-oom met, 20 a regression or a mismatch found, 30 no CUDA device,\n\
                  130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Results as JSON on standard output, words for people on standard error
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Compare(compare::Compare),
    Replay(replay::Replay),
    Explain(explain::Explain),
    Fidelity(fidelity::Fidelity),
    Plot(plot::Plot),
    Run(run::Run),
    Merge(merge::Merge),
    Fit(fit::Fit),
    Plan(plan::Plan),
    Serve(serve::Serve),
    #[command(subcommand)]
    Trace(trace::Trace),
    #[command(subcommand)]
    Policy(policy::Policy),
    Validate(validate::Validate),
    Calibrate(calibrate::Calibrate),
    Doctor(doctor::Doctor),
    Completions(shell::Completions),
    Man(shell::Man),
}

/// Runs the command line with the policies of `registry`; a crate that brings policies
/// of its own calls it as `vramlab::cli::main(Registry::default().with("mine", ...))`.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    hush_caught_panics();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help that nobody reads to its end is no error.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1));
        }
    };
    let mut output = Output::new(cli.json);
    let done = run(cli.command, &registry, &mut output).and_then(|()| output.flush());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output.tell_error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(command: Command, registry: &Registry, output: &mut Output) -> Result<(), CliError> {
    match command {
        Command::Compare(compare) => compare.run(registry, output),
        Command::Replay(replay) => replay.run(registry, output),
        Command::Explain(explain) => explain.run(registry, output),
        Command::Fidelity(fidelity) => fidelity.run(registry, output),
        Command::Plot(plot) => plot.run(output),
        Command::Run(run) => run.run(registry, output),
        Command::Merge(merge) => merge.run(output),
        Command::Fit(fit) => fit.run(registry, output),
        Command::Plan(plan) => plan.run(output),
        Command::Serve(serve) => serve.run(registry, output),
        Command::Trace(trace) => trace.run(registry, output),
        Command::Policy(policy) => policy.run(registry, output),
        Command::Validate(validate) => validate.run(registry, output),
        Command::Calibrate(calibrate) => calibrate.run(output),
        Command::Doctor(doctor) => doctor.run(registry, output),
        Command::Completions(completions) => completions.run(output),
        Command::Man(man) => man.run(output),
    }
}

/// A panic that a cell catches is told once, by the cell; any other is a bug of the
/// program, and the usual message is followed by what to do with it.
fn hush_caught_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_caught() {
            usual(info);
            output::say(
                "this is a bug of vramlab; please report it with the command and the trace",
            );
        }
    }));
}
