#include "banyan/data/record.hpp"

#include "banyan/base/error.hpp"

namespace banyan::data {

namespace {

/// Error messages begin with the record's description.
template <class Do>
void of_record(RecordReader& reader, std::uint64_t position, const Do& read) {
  try {
    read();
  } catch (const Error& error) {
    throw Error(error.kind(), reader.describe(position) + ": " + error.message());
  }
}

}  // namespace

void fetch_record(RecordReader& reader, std::uint64_t position, Record& record) {
  of_record(reader, position, [&] { reader.fetch(position, record); });
}

void read_record(RecordReader& reader, std::uint64_t position, Record& record, std::uint64_t item) {
  record.item = item;
  of_record(reader, position, [&] { reader.read(position, record); });
}

}  // namespace banyan::data
