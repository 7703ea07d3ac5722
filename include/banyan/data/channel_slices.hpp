// Records of FlowNet2: the channels of one Datum are those of several blobs, such as two images and the flow
// between them, each stored in a way of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"
#include "banyan/ops/random.hpp"

namespace banyan::data {

enum class SliceEncoding : std::uint8_t {
  bytes,
  flow,  ///< 16 bits with a sign, lower byte first: 32 times the value; 32767 is no number
  bits,  ///< eight pixels in a byte, from its lowest bit on; of one channel
};

struct ChannelSlices {
  std::vector<std::int64_t> points;      ///< channels at which the second slice begins, the third ...
  std::vector<SliceEncoding> encodings;  ///< of the first slices; the others are bytes

  std::size_t count() const { return points.size() + 1; }
  /// Channels of slice k of `channels`.
  std::int64_t begin(std::size_t k) const { return k == 0 ? 0 : points[k - 1]; }
  std::int64_t end(std::size_t k, std::int64_t channels) const {
    return k < points.size() ? points[k] : channels;
  }
  SliceEncoding encoding(std::size_t k) const {
    return k < encodings.size() ? encodings[k] : SliceEncoding::bytes;
  }
};

/// Which records are read, and in what order.
struct RecordChoice {
  std::string label_file;             ///< a number for each record; "": all are read
  std::int32_t label = 0;             ///< of the records that are read
  std::int64_t first = 0, last = -1;  ///< of these; last below 0: to the end
  bool permute = false, range_first = false;
  std::uint64_t block = 0;  ///< permute within blocks of so many; 0: all
  ops::RandomKey key;       ///< of the order

  /// Their positions among `records`. Throws bad_input for a file that does not fit.
  std::vector<std::uint64_t> positions(std::uint64_t records) const;
};

struct ChannelSliceOptions {
  ChannelSlices slices;
  RecordChoice choice;
  bool shuffle = false;  ///< another order in each epoch
};
/// The chosen records of the LMDB in folder `path`. Throws bad_input as open_lmdb does, and for records whose
/// length does not fit.
std::shared_ptr<RecordSource> open_channel_slices(const std::string& path,
                                                  const ChannelSliceOptions& options);

/// Outputs: each slice, C x H x W, then the record's label, 1 x 1 x 1.
class ChannelSliceWriter : public ItemWriter {
 public:
  /// `subtracted`: from each of the first channels, before the multiplication.
  ChannelSliceWriter(ChannelSlices slices, std::vector<float> subtracted, float scale);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  ChannelSlices slices_;
  std::vector<float> subtracted_;
  float scale_;
};

}  // namespace banyan::data
