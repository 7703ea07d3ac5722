// The mean image of a data set.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/data/lmdb_source.hpp"
#include "banyan/io/atomic_file.hpp"
#include "proto/banyan.pb.h"
#include "tool.hpp"

namespace banyan::tools {

/// Sums over the records, C x H x W. f64 sums of 8-bit values are exact up to 2^45 records.
class ImageMean {
 public:
  /// Throws bad_input for a record of another size than the first one.
  void add(const data::Record& record) {
    if (count_ == 0) {
      channels = record.channels;
      height = record.height;
      width = record.width;
      sums_.resize(static_cast<std::size_t>(channels) * static_cast<std::size_t>(plane()));
    }
    if (record.channels != channels || record.height != height || record.width != width)
      bad_input("expected ", channels, " x ", height, " x ", width, " like the first record, found ",
                record.channels, " x ", record.height, " x ", record.width);
    for (int c = 0; c < channels; ++c) {
      const int first = record.interleaved ? c : c * plane(), step = record.interleaved ? channels : 1;
      for (int i = 0; i < plane(); ++i) {
        const int from = first + i * step;
        sums_[c * plane() + i] +=
            record.bytes != nullptr ? record.bytes[from] : static_cast<double>(record.floats[from]);
      }
    }
    ++count_;
  }
  int plane() const { return height * width; }
  double at(int index) const { return sums_[index] / static_cast<double>(count_); }

  /// As a binary BlobProto (.binaryproto), as Caffe writes it.
  void write(const std::string& path) const {
    caffe::BlobProto blob;
    blob.set_num(1);
    blob.set_channels(channels);
    blob.set_height(height);
    blob.set_width(width);
    for (int i = 0; i < channels * plane(); ++i) blob.add_data(static_cast<float>(at(i)));
    LOG(INFO) << "Write to " << path;
    io::write_file(path, blob.SerializeAsString());
  }

  int channels = 0, height = 0, width = 0;

 private:
  std::vector<double> sums_;
  std::uint64_t count_ = 0;
};

}  // namespace banyan::tools
