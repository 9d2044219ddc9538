//! The policy keeps to what every policy must keep to, and to its own rule.

use vramlab::conformance::Suite;
use vramlab::replay::Replay;
use vramlab::space::SpaceConfig;
use vramlab::trace::Event;

#[test]
fn last_fit_conforms() {
    let registry = own_policy::registry();
    let chosen = registry.find("last-fit").expect("it is registered");
    let suite = Suite::new(|| registry.build(&chosen).expect("it takes no parameters"));
    suite.run().unwrap_or_else(|breach| panic!("{breach}"));
}

#[test]
fn the_highest_hole_is_cut_at_its_high_end() {
    let registry = own_policy::registry();
    let chosen = registry
        .find("last-fit:alignment=512B")
        .expect("the option fits");
    let policy = registry.build(&chosen).expect("the option fits");
    let mut replay = Replay::new(policy, SpaceConfig::bare(4096)).expect("it starts");
    for (slot, bytes) in [(0, 1000), (1, 100)] {
        let request = Event::Alloc {
            slot,
            bytes,
            align_log2: 0,
            stream: 0,
            pool: 0,
            tag: 0,
        };
        replay.feed(&[request], &[], &mut ());
    }
    let address = |slot| {
        replay
            .block_of(slot)
            .map(|block| replay.space().base(block))
    };
    assert_eq!((address(0), address(1)), (Some(3072), Some(2560)));
}

#[test]
fn a_wrong_option_is_told() {
    let error = own_policy::registry()
        .find("last-fit:alignement=512")
        .err()
        .expect("no such option");
    assert!(error.to_string().contains("alignement"), "{error}");
}
