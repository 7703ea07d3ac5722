#include "banyan/data/record.hpp"

#include "banyan/base/error.hpp"

namespace banyan::data {

void read_record(RecordReader& reader, std::uint64_t position, Record& record, std::uint64_t item) {
  record.item = item;
  try {
    reader.read(position, record);
  } catch (const Error& error) {
    throw Error(error.kind(), reader.describe(position) + ": " + error.message());
  }
}

}  // namespace banyan::data
