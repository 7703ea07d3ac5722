// LevelDB folders of Datum or AnnotatedDatum records, in builds that have the library.
#pragma once

#include <memory>
#include <string>

#include "banyan/data/record.hpp"
#include "banyan/data/record_writer.hpp"

namespace banyan::data {

bool has_leveldb();
/// Does the folder look like a LevelDB?
bool holds_leveldb(const std::string& path);

struct LeveldbOptions {
  ColorMode color = ColorMode::as_stored;
  bool random_access = false;  ///< keep all keys, so that any order costs the same
  bool annotated = false;      ///< SSD's AnnotatedDatum, else Datum
};

/// Opens the LevelDB in folder `path`. All sources of a process on the same folder share one database;
/// another process can not open it meanwhile, and LevelDB writes its log into the folder; one without write
/// access is opened through links in a temporary folder. Positions are in key order. LevelDB does not know
/// the number of its records: opening reads through all of them once. Throws bad_input if the folder is
/// missing, no LevelDB, damaged, written in part, in use or has no records.
std::shared_ptr<RecordSource> open_leveldb(const std::string& path, const LeveldbOptions& options = {});

/// Writes into a folder `<path>.tmp.<pid>` that close() renames to `path`.
std::unique_ptr<RecordWriter> make_leveldb_writer(const std::string& path, bool overwrite);

}  // namespace banyan::data
