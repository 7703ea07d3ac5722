// Images with boxes around objects, as SSD's AnnotatedData makes them.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Throws bad_input for settings that an AnnotatedWriter cannot follow; reads no file. `layer` is for
/// messages.
void check_annotated(const caffe::TransformationParameter& transform,
                     const caffe::AnnotatedDataParameter& annotations, const std::string& layer);

/// Outputs: pixels C x H x W and, if wanted, the table of objects with rows (item of the batch, label,
/// instance, xmin, ymin, xmax, ymax, difficult), the boxes as fractions of the result; with yolo_data_type: 1
/// 1 x 300 x 5 for each item in place of the table (class from 0, centre, size), zeros after the last. The
/// image is distorted, expanded, cut to a random one of the parts that the batch samplers found, resized,
/// changed by noise_param, and then as by the Augmenter. An item's draws depend only on (seed, layer, item
/// number), which of several resize_param its batch takes on the batch's first item.
class AnnotatedWriter : public ItemWriter {
 public:
  struct Options {
    bool objects = true;      ///< make the table
    bool random_crop = true;  ///< for crop_size: else from the centre
    std::uint64_t seed = 0;
    std::string layer;
  };
  /// Reads mean_file and label_map_file. Throws bad_input.
  AnnotatedWriter(const caffe::TransformationParameter& transform,
                  const caffe::AnnotatedDataParameter& annotations, const Options& options);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  std::int64_t row_length() const override { return options_.objects && !is_fixed() ? 8 : 0; }
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  struct Steps;
  Steps plan(const Record& record, std::uint64_t item) const;
  Record pixels(const Record& record, const Steps& steps) const;
  const caffe::ResizeParameter* resize_of(const Record& record) const;
  void check_objects(const Record& record) const;
  std::vector<ObjectBox> shown(const Record& result, const Steps& steps, std::uint64_t item) const;
  void write_rows(const std::vector<ObjectBox>& objects, const ItemPlace& place) const;
  void write_fixed_rows(const std::vector<ObjectBox>& objects, const ItemPlace& place) const;
  /// Each item has rows of its own, as many as the others (yolo_data_type).
  bool is_fixed() const { return annotations_.yolo_data_type() == 1; }
  const caffe::EmitConstraint* emit_constraint() const {
    return transform_.has_emit_constraint() ? &transform_.emit_constraint() : nullptr;
  }

  static constexpr std::int64_t kFixedRows = 300, kFixedLength = 5;

  caffe::TransformationParameter transform_;
  caffe::AnnotatedDataParameter annotations_;
  Options options_;
  Augmenter augmenter_;
  ops::RandomKey key_, sizes_key_, noise_key_;  // of items, of batches, of items
  std::optional<std::set<int>> labels_;         // of label_map_file
};

}  // namespace banyan::data
