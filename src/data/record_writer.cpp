#include "banyan/data/record_writer.hpp"

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/leveldb.hpp"
#include "banyan/data/lmdb_writer.hpp"

namespace banyan::data {

void check_backend(const std::string& backend) {
  if (backend != "lmdb" && backend != "leveldb")
    bad_input("backend ", banyan::quoted(backend), " is not supported: expected lmdb or leveldb");
  if (backend == "leveldb" && !has_leveldb())
    bad_input(
        "backend \"leveldb\": this build of Banyan lacks LevelDB: install libleveldb-dev and build again");
}

std::unique_ptr<RecordWriter> make_record_writer(const std::string& backend, const std::string& path,
                                                 bool overwrite) {
  check_backend(backend);
  if (backend == "leveldb") return make_leveldb_writer(path, overwrite);
  return std::make_unique<LmdbWriter>(path, overwrite);
}

}  // namespace banyan::data
