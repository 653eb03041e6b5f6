//! The project that an option names, or in which the command runs.

use crate::context::Context;
use crate::exit::Failure;
#[cfg(not(feature = "agent"))]
use crate::missing;
#[cfg(feature = "agent")]
use crate::trusted_projects;
use clap::Args;
use std::path::PathBuf;
use threadseal_core::record::ThreadId;
#[cfg(feature = "agent")]
use threadseal_runtime::project::Project;

/// Which project.
#[derive(Debug, Default, Args)]
pub(crate) struct ProjectArgs {
    /// The project's folder, which contains .ai [default: the nearest such folder, from here
    /// upwards]
    #[arg(long, value_name = "DIR")]
    #[cfg_attr(not(feature = "agent"), arg(hide = true))]
    project: Option<PathBuf>,
}

#[cfg(feature = "agent")]
impl ProjectArgs {
    /// The project, whose files may decide what runs.
    ///
    /// # Errors
    /// When there is none, or it is another user's and not trusted.
    pub(crate) fn open(&self, context: &Context) -> Result<Project, Failure> {
        let project = self.find(context)?;
        trusted_projects::check(project.root(), context)?;
        Ok(project)
    }

    /// Does an option name it?
    #[cfg(feature = "view")]
    pub(crate) fn is_named(&self) -> bool {
        self.project.is_some()
    }

    /// Is there one, which may be used?
    #[cfg(feature = "capture")]
    pub(crate) fn is_there(&self, context: &Context) -> bool {
        self.open(context).is_ok()
    }

    /// The project, of any user.
    fn find(&self, context: &Context) -> Result<Project, Failure> {
        Ok(match &self.project {
            Some(root) => Project::open(&*context.fs, root)?,
            None => Project::find(&*context.fs, std::path::Path::new("."))?,
        })
    }

    /// The transcript of a thread of the project; None if there is no project or no such thread.
    ///
    /// # Errors
    /// When the project cannot be read.
    pub(crate) fn transcript_of(
        &self,
        id: &ThreadId,
        context: &Context,
    ) -> Result<Option<PathBuf>, Failure> {
        let Ok(project) = self.find(context) else {
            return Ok(None);
        };
        let folder = project.find_thread(&*context.fs, id)?;
        Ok(folder.map(|folder| folder.transcript()))
    }
}

#[cfg(not(feature = "agent"))]
impl ProjectArgs {
    /// Threads of projects are found by the engine.
    ///
    /// # Errors
    /// Always.
    pub(crate) fn transcript_of(
        &self,
        id: &ThreadId,
        _: &Context,
    ) -> Result<Option<PathBuf>, Failure> {
        let project = self.project.as_ref().map(|root| root.display().to_string());
        let project = project.unwrap_or_else(|| "the project".to_owned());
        let action = format_args!("open {id}, which is no file, as a thread of {project}");
        Err(missing::failure(action, "agent"))
    }
}
