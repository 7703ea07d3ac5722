#include "banyan/data/record.hpp"

#include "banyan/base/error.hpp"

namespace banyan::data {

void read_record(RecordReader& reader, std::uint64_t position, Record& record) {
  try {
    reader.read(position, record);
  } catch (const Error& error) {
    throw Error(error.kind(), reader.describe(position) + ": " + error.message());
  }
}

}  // namespace banyan::data
