//! `sim hops`: rings of any size, without a node.

use dht_tests::client::run;

/// `--plot` and `--csv` write whole files or say early why not; JSON stays alone on stdout.
#[test]
fn simulated_hops_go_to_files() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (plot, csv) = (path("hops.svg"), path("hops.csv"));
    let sim = ["sim", "hops", "--nodes", "7,16", "--depth", "1,3", "--lookups", "1000", "--json"];
    for _ in 0..2 {
        let said = run(&[&sim[..], &["--plot", &plot, "--csv", &csv]].concat()).expect(0).json();
        assert!(said["sizes"][1]["routings"][1]["stderr"].is_number(), "{said}");
        let picture = std::fs::read_to_string(&plot).expect("it was written");
        assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
        let table = std::fs::read_to_string(&csv).expect("it was written");
        assert_eq!(table.split_terminator("\r\n").count(), 1 + 4, "{table}");
    }
    // A measurement that would outlive the deadline: it is never begun.
    let long = ["sim", "hops", "--nodes", "1000000", "--lookups", "1000000", "--deadline", "30s"];
    let nowhere = path("no/such/place.svg");
    let cases: [(&[&str], i32); 3] = [
        (&["--plot", &nowhere], 1),
        (&["--csv", folder.path().to_str().expect("UTF-8")], 1),
        (&["--plot", &csv, "--csv", &csv], 2),
    ];
    for (files, code) in cases {
        let said = run(&[&long[..], files].concat()).expect(code);
        assert!(said.stdout.is_empty() && said.stderr.lines().count() == 1, "{said}");
    }
    let left = std::fs::read_dir(folder.path()).expect("readable").count();
    assert_eq!(left, 2, "nothing but what was asked for");
}

/// `sim hops` needs no node, and its mean is the formula's.
#[test]
fn simulated_hops_follow_the_formula() {
    let args = ["sim", "hops", "--nodes", "16,64", "--lookups", "2000", "--seed", "1", "--json"];
    let said = run(&args).expect(0).json();
    let sizes = said["sizes"].as_array().expect("a list");
    assert_eq!(sizes.len(), 2, "{said}");
    for size in sizes {
        let nodes = size["nodes"].as_f64().expect("a number");
        let rows = size["routings"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["depth"] == 1).expect("depth 1 is a row");
        let mean = row["mean"].as_f64().expect("a number");
        let expected = (nodes - 1.0) / 2.0;
        // Six standard errors of the mean of a uniform distribution over 0..N-1.
        let error = 6.0 * ((nodes * nodes - 1.0) / 12.0 / 2000.0).sqrt();
        assert!((mean - expected).abs() < error, "{mean} against {expected}: {row}");
    }
    let again = run(&args).expect(0).json();
    assert_eq!(said, again, "same seed, same answer");
}
