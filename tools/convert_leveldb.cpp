// convert_leveldb IN OUT: the records of a LevelDB as an LMDB, or the other way round, under their keys and
// as they are.
#include <filesystem>

#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "common/tool.hpp"

DEFINE_string(backend, "", "type of OUT: lmdb or leveldb; without it the one that IN is not");
DEFINE_bool(overwrite, false, "replace OUT if it exists");

namespace {

using namespace banyan;

void convert(const std::vector<std::string>& arguments) {
  const std::string &from = arguments[0], &to = arguments[1];
  std::error_code ignored;
  if (!std::filesystem::exists(from, ignored))
    bad_input("IN, ", banyan::quoted(from), ": there is no such folder");
  const bool is_leveldb = data::holds_leveldb(from);
  std::string backend = FLAGS_backend;
  if (backend.empty()) backend = is_leveldb ? "lmdb" : "leveldb";
  data::check_backend(backend);
  if (std::filesystem::equivalent(from, to, ignored)) bad_input("IN and OUT are the same folder");
  const auto source = is_leveldb ? data::open_leveldb(from) : data::open_lmdb(from);
  const auto reader = source->reader();
  const auto writer = data::make_record_writer(backend, to, FLAGS_overwrite);
  tools::Progress progress("Converting", source->size());
  data::Record record;
  for (std::uint64_t i = 0; i < source->size(); ++i, progress.step()) {
    data::fetch_record(*reader, i, record);
    writer->put(std::string(reader->key()), std::string(record.stored));
  }
  writer->close();
  LOG(INFO) << "Wrote " << writer->records() << " records.";
}

}  // namespace

int main(int argc, char** argv) {
  return banyan::tools::run_tool(argc, argv,
                                 {"convert_leveldb", "IN OUT",
                                  "Writes the records of the folder IN, a LevelDB or an LMDB, to a new "
                                  "folder OUT of the other kind. Keys\n"
                                  "and records stay as they are.",
                                  "convert_leveldb train_leveldb train_lmdb", 2, 2, convert});
}
