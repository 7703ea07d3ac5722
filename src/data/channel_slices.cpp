#include "banyan/data/channel_slices.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "banyan/data/datum.hpp"
#include "banyan/data/lmdb_source.hpp"
#include "banyan/io/atomic_file.hpp"
#include "data/list_words.hpp"

namespace banyan::data {
namespace {

constexpr std::int16_t kNoFlow = std::numeric_limits<std::int16_t>::max();
constexpr int kFlowSteps = 32;  // to a pixel

std::uint64_t bytes_of_slice(SliceEncoding encoding, std::int64_t channels, std::int64_t pixels) {
  const std::int64_t values = channels * pixels;
  switch (encoding) {
    case SliceEncoding::flow:
      return static_cast<std::uint64_t>(2 * values);
    case SliceEncoding::bits:
      return static_cast<std::uint64_t>((pixels + 7) / 8);
    case SliceEncoding::bytes:
      break;
  }
  return static_cast<std::uint64_t>(values);
}

/// Throws bad_input for a record that is not made of these slices.
void check_slices(const ChannelSlices& slices, const DatumView& datum) {
  if (datum.encoded) bad_input("the record holds an image file; expected the pixels of several images");
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const std::int64_t channels = datum.channels, height = datum.height, width = datum.width;
  if (channels < 1 || height < 1 || width < 1 || height * width > kMost ||
      channels > kMost / (height * width))
    bad_input("the record's size ", channels, " x ", height, " x ", width, " is impossible");
  if (!slices.points.empty() && slices.points.back() >= channels)
    bad_input("the record has ", channels, " channels; the last slice_point is ", slices.points.back());
  if (datum.data.empty()) {
    if (!slices.encodings.empty())
      bad_input("the record holds floating-point numbers, which have no encoding");
    if (datum.float_data.size() != static_cast<std::uint64_t>(channels * height * width))
      bad_input("the record says ", channels, " x ", height, " x ", width, ", but holds ",
                datum.float_data.size(), " values");
    return;
  }
  std::uint64_t expected = 0;
  for (std::size_t k = 0; k < slices.count(); ++k) {
    const std::int64_t own = slices.end(k, channels) - slices.begin(k);
    if (slices.encoding(k) == SliceEncoding::bits && own != 1)
      bad_input("BOOL1 is for one channel; top ", k, " has ", own);
    expected += bytes_of_slice(slices.encoding(k), own, height * width);
  }
  if (datum.data.size() != expected)
    bad_input("the record says ", channels, " x ", height, " x ", width, ", which these encodings store in ",
              expected, " bytes, but holds ", datum.data.size());
}

class ChannelSliceReader : public RecordReader {
 public:
  ChannelSliceReader(std::unique_ptr<RecordReader> records, const ChannelSlices& slices,
                     std::shared_ptr<const std::vector<std::uint64_t>> positions)
      : records_(std::move(records)), slices_(slices), positions_(std::move(positions)) {}

  void fetch(std::uint64_t position, Record& record) override {
    records_->fetch((*positions_)[position], record);
  }
  void decode(Record& record) override {
    DatumView datum;
    datum.float_data = std::move(record.values);
    parse_datum(record.stored, datum);
    check_slices(slices_, datum);
    record.values = std::move(datum.float_data);
    record.channels = datum.channels;
    record.height = datum.height;
    record.width = datum.width;
    record.label = datum.label;
    record.interleaved = record.encoded = false;
    record.bytes = datum.data.empty() ? nullptr : reinterpret_cast<const std::uint8_t*>(datum.data.data());
    record.floats = datum.data.empty() ? record.values.data() : nullptr;
  }
  std::string_view key() const override { return records_->key(); }
  std::string describe(std::uint64_t position) override {
    return records_->describe((*positions_)[position]);
  }

 private:
  std::unique_ptr<RecordReader> records_;
  ChannelSlices slices_;
  std::shared_ptr<const std::vector<std::uint64_t>> positions_;
};

class ChannelSliceSource : public RecordSource {
 public:
  ChannelSliceSource(std::shared_ptr<const RecordSource> records, const ChannelSliceOptions& options)
      : records_(std::move(records)),
        slices_(options.slices),
        positions_(
            std::make_shared<const std::vector<std::uint64_t>>(options.choice.positions(records_->size()))) {}
  std::uint64_t size() const override { return positions_->size(); }
  std::string name() const override { return records_->name(); }
  std::unique_ptr<RecordReader> reader() const override {
    return std::make_unique<ChannelSliceReader>(records_->reader(), slices_, positions_);
  }

 private:
  std::shared_ptr<const RecordSource> records_;
  ChannelSlices slices_;
  std::shared_ptr<const std::vector<std::uint64_t>> positions_;
};

/// Of one slice, from where it is stored.
template <class T>
struct SliceSamples {
  SliceEncoding encoding;
  const std::uint8_t* bytes;
  const float* floats;

  T operator()(std::int64_t i) const {
    if (floats != nullptr) return static_cast<T>(floats[i]);
    switch (encoding) {
      case SliceEncoding::flow: {
        const auto value = static_cast<std::int16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8);
        return value == kNoFlow ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(value) / kFlowSteps;
      }
      case SliceEncoding::bits:
        return static_cast<T>(bytes[i / 8] >> i % 8 & 1);
      case SliceEncoding::bytes:
        break;
    }
    return static_cast<T>(bytes[i]);
  }
};

}  // namespace

std::vector<std::uint64_t> RecordChoice::positions(std::uint64_t records) const {
  std::vector<std::uint64_t> chosen;
  if (label_file.empty()) {
    chosen.resize(records);
    std::iota(chosen.begin(), chosen.end(), std::uint64_t{0});
  } else {
    const std::string text = io::read_file(label_file, std::size_t{1} << 30);
    ListWords words(text, label_file);
    std::uint64_t read = 0;
    for (; !words.done(); ++read)
      if (words.number<std::int32_t>("a whole number for each record") == label) chosen.push_back(read);
    if (read != records)
      bad_input("preselection_file ", banyan::quoted(label_file), " has ", read, " numbers for ", records,
                " records");
    if (chosen.empty())
      bad_input("preselection_file ", banyan::quoted(label_file), " has no record with the number ", label);
  }
  if (chosen.empty()) return chosen;
  const auto count = static_cast<std::int64_t>(chosen.size());
  const std::int64_t from = std::clamp<std::int64_t>(first, 0, count - 1);
  const std::int64_t to = last < 0 ? count - 1 : std::min(last, count - 1);
  if (to < from) bad_input("range_end, ", last, ", is before range_start, ", first);
  const auto cut = [&] {
    chosen.erase(chosen.begin() + to + 1, chosen.end());
    chosen.erase(chosen.begin(), chosen.begin() + from);
  };
  if (range_first) cut();
  const std::uint64_t length = block == 0 ? chosen.size() : block;
  for (std::uint64_t begin = 0; permute && begin < chosen.size(); begin += length)
    for (std::uint64_t i = std::min<std::uint64_t>(length, chosen.size() - begin) - 1; i > 0; --i)
      std::swap(chosen[begin + i], chosen[begin + ops::philox(key.key(), 0, begin + i).v[0] % (i + 1)]);
  if (!range_first) cut();
  return chosen;
}

std::shared_ptr<RecordSource> open_channel_slices(const std::string& path,
                                                  const ChannelSliceOptions& options) {
  const bool any_order = options.shuffle || options.choice.permute;
  return std::make_shared<ChannelSliceSource>(open_lmdb(path, {ColorMode::as_stored, any_order, false}),
                                              options);
}

ChannelSliceWriter::ChannelSliceWriter(ChannelSlices slices, std::vector<float> subtracted, float scale)
    : slices_(std::move(slices)), subtracted_(std::move(subtracted)), scale_(scale) {}

std::vector<Shape> ChannelSliceWriter::shapes(const Record& record, std::uint64_t) const {
  std::vector<Shape> shapes;
  if (subtracted_.size() > static_cast<std::size_t>(record.channels))
    bad_input("the record has ", record.channels, " channels; subtract has ", subtracted_.size(), " numbers");
  for (std::size_t k = 0; k < slices_.count(); ++k)
    shapes.push_back(Shape{slices_.end(k, record.channels) - slices_.begin(k), record.height, record.width});
  shapes.push_back(Shape{1, 1, 1});
  return shapes;
}

void ChannelSliceWriter::write(const Record& record, std::uint64_t, const ItemPlace& place) const {
  const std::int64_t pixels = std::int64_t{record.height} * record.width;
  dispatch_float(place.dtype, "a data layer", [&]<class T>() {
    std::uint64_t offset = 0;
    for (std::size_t k = 0; k < slices_.count(); ++k) {
      const std::int64_t begin = slices_.begin(k), end = slices_.end(k, record.channels);
      const SliceSamples<T> values{slices_.encoding(k),
                                   record.bytes == nullptr ? nullptr : record.bytes + offset,
                                   record.bytes == nullptr ? record.floats + begin * pixels : nullptr};
      T* const to = static_cast<T*>(place.outputs[k]);
      for (std::int64_t c = begin; c < end; ++c) {
        const auto at = static_cast<std::size_t>(c);
        const T less = at < subtracted_.size() ? static_cast<T>(subtracted_[at]) : T{0};
        for (std::int64_t i = (c - begin) * pixels; i < (c - begin + 1) * pixels; ++i)
          to[i] = (values(i) - less) * static_cast<T>(scale_);
      }
      offset += bytes_of_slice(slices_.encoding(k), end - begin, pixels);
    }
    *static_cast<T*>(place.outputs[slices_.count()]) = static_cast<T>(record.label);
  });
}

}  // namespace banyan::data
