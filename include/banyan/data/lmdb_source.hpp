// LMDB folders of Datum or AnnotatedDatum records.
#pragma once

#include <memory>
#include <string>

#include "banyan/data/record.hpp"

namespace banyan::data {

struct LmdbOptions {
  ColorMode color = ColorMode::as_stored;
  bool random_access = false;  ///< index all keys at first use, so that any order costs the same
  bool annotated = false;      ///< SSD's AnnotatedDatum, else Datum
};

/// Opens the LMDB in folder `path`, read-only. All sources of a process on the same folder share one
/// environment; a folder without write access (no lock file possible) is read without locks. Positions are in
/// key order; reading moves a cursor forward, and an earlier position starts again from the first key. Throws
/// bad_input if the folder is missing, not an LMDB, truncated or has no records.
std::shared_ptr<RecordSource> open_lmdb(const std::string& path, const LmdbOptions& options = {});

/// Flags (MDB_RDONLY ...) that the environment of `path` was opened with. For tests; 0 if it is not open.
unsigned lmdb_flags(const std::string& path);
/// While true, environments are opened as on a folder without write access. For tests.
void pretend_read_only_folders(bool pretend);

}  // namespace banyan::data
