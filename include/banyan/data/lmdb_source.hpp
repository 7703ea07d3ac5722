// LMDB folders of Datum records.
#pragma once

#include <memory>
#include <string>

#include "banyan/data/record.hpp"

namespace banyan::data {

struct LmdbOptions {
  ColorMode color = ColorMode::as_stored;
  bool random_access = false;  ///< index all keys at first use, so that any order costs the same
};

/// Opens the LMDB in folder `path`, read-only. Every source of a process on one folder shares one
/// environment; a folder that cannot be written (no lock file possible) is read without locks. Positions are
/// in key order; reading steps a cursor forward, an earlier position starts again at the first key. Throws
/// bad_input if the folder is missing, is no LMDB, is truncated or has no records.
std::shared_ptr<RecordSource> open_lmdb(const std::string& path, const LmdbOptions& options = {});

/// Flags (MDB_RDONLY ...) with which the open environment of `path` was opened. For tests; 0 if it is not
/// open.
unsigned lmdb_flags(const std::string& path);
/// While true, environments are opened as on a folder without write access. For tests.
void pretend_read_only_folders(bool pretend);

}  // namespace banyan::data
