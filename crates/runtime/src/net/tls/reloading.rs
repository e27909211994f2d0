//! A configuration of rustls that is built again when its files change.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::TlsError;
use super::configuration::{Contents, TlsOptions};

/// Builds a configuration of rustls from the contents of files.
type Build<C> = Box<dyn Fn(&Contents, &TlsOptions) -> Result<Arc<C>, TlsError> + Send + Sync>;

/// The present configuration, with the files of which it is made. All shards share it.
pub(super) struct Reloading<C> {
    options: TlsOptions,
    build: Build<C>,
    current: RwLock<Arc<C>>,
    /// The files of the present configuration, to tell whether they changed.
    contents: Mutex<Contents>,
}

impl<C> Reloading<C> {
    /// Reads the files and builds the configuration.
    pub async fn load(options: TlsOptions, build: Build<C>) -> Result<Self, TlsError> {
        let contents = Contents::read(&options).await?;
        let current = RwLock::new(build(&contents, &options)?);
        Ok(Self { options, build, current, contents: Mutex::new(contents) })
    }

    pub fn options(&self) -> &TlsOptions {
        &self.options
    }

    pub fn current(&self) -> Arc<C> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again. Returns whether they changed.
    ///
    /// # Errors
    /// Fails as [`Self::load`]; the present configuration then stays.
    pub async fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.options).await?;
        if *self.contents.lock().unwrap_or_else(PoisonError::into_inner) == contents {
            return Ok(false);
        }
        let built = (self.build)(&contents, &self.options)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = built;
        *self.contents.lock().unwrap_or_else(PoisonError::into_inner) = contents;
        Ok(true)
    }
}
