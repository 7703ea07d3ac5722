// Batch normalization, one implementation of every dialect of the Caffe family (BatchNorm, BN, SyncBN).
//
//   y = slope * (x - mean) / sqrt(variance + eps) + bias         per channel (axis 1)
//
// In training, mean and variance are those of the batch; with synchronization, of the batches of all devices
// of a group: the local moments (count, mean, sum of squared deviations) are merged, and in the backward pass
// the sums of dy and of dy * xhat. A device without samples takes part in both. Or they are those of parts of
// the device's batch, which are normalized one after the other, as if each came from a device of its own;
// each moves the running statistics (Intel). These depend on the dialect:
//
//   sums       BVLC BatchNorm   M = f M + m, factor = f factor + 1, used as M / factor
//   corrected  NV BatchNorm     M = f M + (1 - f) m, the first batch with weight 1; the stored factor is 1
//   average    BN, SyncBN       M = f M + (1 - f) m
//   none       SegNet's BN      tests normalize with their batch as well, or nothing does
//
// Sources: Ioffe and Szegedy 2015; Peng et al. 2018 (MegDet) for synchronization; the branches of Caffe for
// the dialects.
#pragma once

#include "banyan/layers/layer.hpp"
#include "banyan/ops/normalization.hpp"

namespace banyan {

struct BatchNormDialect {
  enum class Running : std::uint8_t { sums, corrected, average, none };
  enum class Stored : std::uint8_t {
    in_tests,  ///< training normalizes with the batch, tests with the stored statistics
    never,     ///< always the batch (BVLC, use_global_stats: false)
    always,    ///< frozen
  };
  /// Positions among the layer's parameters; -1: absent. Mean and variance are both there or, as the stored
  /// 0 and 1 - eps, both absent. Any of `factor`, slope and bias may be absent.
  int mean = -1, variance = -1, factor = -1, slope = -1, bias = -1;
  Running running = Running::average;
  Stored stored = Stored::in_tests;
  double fraction = 0.9;  ///< f above
  double eps = 1e-5;
  caffe::BatchNormArithmetic::Variance arithmetic = caffe::BatchNormArithmetic::STANDARD;
  bool sync = false;
  int sync_group_size = 0;  ///< devices that share statistics; 0: all
  std::int64_t part = 0;    ///< samples whose statistics are their own, the last part may be shorter; 0: all
};

/// Does a BatchNorm layer with these settings learn slopes and biases (NVIDIA's and Intel's)?
bool learns_slopes(const caffe::BatchNormParameter& settings);

class BatchNormalization : public Layer {
 public:
  BatchNormalization(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : Layer(parameter, options,
              {.layout = LayoutRule::follows,
               .storage = StorageRule::sixteen_bits,
               .in_place = true,
               .backward_reads_outputs = false,
               .one_sweep = true,
               .recovers_input = true,
               .fuses_activation = ActivationFusion::both,
               .fuses_sum = true}) {}

  void setup(const Blobs& inputs, const Blobs& outputs) override;
  void reshape(const Blobs& inputs, const Blobs& outputs) override;
  void forward(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void recompute(Pass& pass, const Blobs& inputs, const Blobs& outputs) override;
  void backward(Pass& pass, const Blobs& outputs, const std::vector<bool>& propagate,
                const Blobs& inputs) override;
  double forward_flops(const Blobs& inputs, const Blobs& outputs) const override;
  void check_results(Context& context) override;
  void parameters_replaced() override { known_factor_ = 0; }

  const BatchNormDialect& dialect() const { return dialect_; }
  /// Does it normalize with the stored statistics?
  bool uses_stored() const;
  /// The stored statistics as f64 (2 C): means, then 1 / sqrt(variance + eps).
  void read_stored_statistics(Context& context, Tensor& mean_inv_std) const;

 protected:
  /// Reads the dialect's message and declares the parameters of `channels` channels. `sync` is as in the
  /// file.
  virtual BatchNormDialect read_dialect(std::int64_t channels) = 0;

 private:
  /// Samples that are normalized together, and their statistics.
  struct Part {
    std::int64_t first = 0, count = 0;
    Tensor moments, mean_inv_std;  ///< named as in the operators; moments of the whole group of devices
    /// Its samples; `whole` itself if it is all of them.
    Tensor of(const Tensor& whole) const;
  };
  /// Where backward() finds the normalized values.
  struct Normalized {
    Tensor x, mean_inv_std;
    ops::Affine affine;
  };
  Normalized normalized(const Pass& pass, const Blobs& outputs, const Blobs& inputs, const Part& part,
                        bool wants_sums);
  void divide(std::int64_t samples);
  bool exchanges(const Pass& pass) const;
  const Tensor& value_of(int slot) const;
  const Tensor& slope(const Pass& pass) const;
  const Tensor& bias(const Pass& pass) const;
  ops::Affine affine(const Pass& pass, const ops::Activation& activation) const;
  void normalize(const Pass& pass, const Blobs& inputs, const Blobs& outputs);
  void batch_statistics(Pass& pass, const Tensor& x, Part& part);
  void show_statistics(Context& context, const Blobs& outputs);
  void update_running_statistics(Context& context, const Tensor& moments);
  void update_factor(Context& context, const Tensor& moments, double keep, double add);

  BatchNormDialect dialect_;
  std::int64_t channels_ = 0;
  bool from_stored_ = false;  ///< did the last forward pass use stored statistics?
  double known_factor_ = 0;   ///< Running::corrected: the stored factor, 0 until it is known to be set
  Ticket forward_ticket_, backward_ticket_;
  std::vector<Part> parts_{1};
  Tensor sums_;                                    ///< named as in the operators
  Tensor shown_;                                   ///< mean and variance, where outputs show them
  Tensor factor_moments_, factor_variance_;        ///< see update_factor
  Tensor of_output_, slope_of_output_, unusable_;  ///< with a kept output; see ops::output_statistics
  Tensor none_;
};

}  // namespace banyan
