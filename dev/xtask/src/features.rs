//! `cargo xtask features`: features only add, so each must compile alone.

use std::path::Path;

use anyhow::Context as _;
use cargo_metadata::MetadataCommand;

use crate::run::{self, Step};

/// One check without features and one per feature, for each published crate that has features.
pub(crate) fn steps(root: &Path) -> anyhow::Result<Vec<Step>> {
    let metadata = MetadataCommand::new()
        .cargo_path(run::cargo())
        .current_dir(root)
        .no_deps()
        .exec()
        .context("failed to read the workspace")?;
    let mut steps = Vec::new();
    for package in metadata.workspace_packages() {
        let published = package.publish.is_none();
        let features = package.features.keys().filter(|feature| *feature != "default");
        if !published || package.features.is_empty() {
            continue;
        }
        let name = package.name.as_str();
        let bare = ["check", "--package", name, "--no-default-features"];
        steps.push(Step::cargo(&format!("{name} alone"), &bare));
        for feature in features {
            let mut args = bare.to_vec();
            args.extend(["--features", feature]);
            steps.push(Step::cargo(&format!("{name} with {feature}"), &args));
        }
    }
    Ok(steps)
}
