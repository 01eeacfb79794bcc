//! Virtual cartridges: AWSTAPE.
