// Updater: the optimizer's arithmetic and state for the buckets that one device owns.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/device/context.hpp"
#include "banyan/net/parameters.hpp"
#include "banyan/ops/device_value.hpp"
#include "banyan/ops/update.hpp"
#include "banyan/parallel/gradient_sync.hpp"
#include "banyan/train/solver_settings.hpp"
#include "proto/banyan.pb.h"

namespace banyan {

class Updater {
 public:
  /// `flat_values` and `flat_gradients` are the device's exchanged parameters, `parameters` the net's list,
  /// which outlives the updater. History starts at 0. Without `flat_gradients` gradients do not stay after
  /// update() (NetOptions::keep_gradients), and buckets hold whole parameters.
  Updater(Context& context, const SolverSettings& solver, const std::vector<LearnableParameter>& parameters,
          const std::vector<parallel::Bucket>& buckets, int rank, const Tensor& flat_values,
          const Tensor& flat_gradients);

  ops::UpdateRule rule() const { return step_.rule; }
  /// Before the updates of an iteration, on the stream that runs them: writes what they share into device
  /// memory.
  void begin(Context& context, std::int64_t iteration, double rate);
  /// The same for the factor by which clipping multiplies 1 / iter_size; 1 from begin() on.
  void set_gradient_factor(Context& context, double factor);
  /// One step for a bucket owned here, on `context`'s stream; nothing where updates are disabled.
  void update(Context& context, int bucket);
  /// Will squares of the gradients be asked for after the updates to come? Where gradients do not stay, they
  /// are summed before each update.
  void note_squares(bool wanted) { notes_squares_ = wanted; }
  /// Sum of the squared gradients of the buckets owned here. Waits for the device, once.
  double sum_of_squares(Context& context);
  /// The same for each of these, which are owned here.
  std::vector<double> sums_of_squares(Context& context, const std::vector<int>& buckets);
  /// The optimizer's state of a bucket owned here.
  std::vector<Tensor> histories_of_bucket(int bucket) const;
  /// larc_turbo's running cosines of the bucket's parameters, f64; undefined without it.
  Tensor cosines_of_bucket(int bucket) const;
  bool follows_cosines() const { return settings_.larc_turbo; }
  /// A stretch of a parameter that is updated here.
  struct OwnedPiece {
    int parameter;        ///< index in the net's list
    std::int64_t offset;  ///< in the parameter
    Tensor value, gradient;
    Tensor gradient_squares;  ///< instead of a gradient that does not stay: f64 (1), see note_squares
  };
  std::vector<OwnedPiece> owned_pieces() const;

  /// Writes the pieces of history owned here into `history` (prepared by prepare_history). Owners write
  /// disjoint places, so devices may do so at the same time. Waits for the device.
  void save(Context& context, std::vector<caffe::BlobProto>& history) const;
  /// The same for larc_turbo's running cosines, one for each parameter of the net.
  void save_cosines(Context& context, std::vector<double>& cosines) const;
  /// The same for the sums of the last iteration's gradients: `flat` holds the bytes of the whole flat
  /// buffer.
  void save_gradients(Context& context, char* flat) const;
  /// Takes the pieces owned here from a complete history. Throws bad_input if number or sizes do not fit,
  /// naming the parameter.
  void restore(Context& context, const caffe::SolverState& state, const std::string& origin);

 private:
  /// Groups of a whole parameter's values (SSL).
  struct Tiles {
    ops::Tiling tiling;
    Tensor squares;    ///< f64, of each tile; undefined where a tile is one value
    double decay = 0;  ///< of those that decay
  };
  /// A stretch of one parameter inside one bucket.
  struct Piece {
    int parameter;
    std::int64_t parameter_offset;
    double lr_mult, decay_mult;
    Tensor value;
    Tensor gradient;  ///< undefined: it does not stay
    Tensor history, history2;
    /// With rates by norms: sums of the squared values and gradients (LAMB: directions, SAG: history); with
    /// larc_turbo two more: of the other of gradient and history, and their dot product.
    Tensor squares;
    Tensor gradient_squares;
    Tensor cosine;  ///< of larc_turbo, f64 (1)
    std::vector<Tiles> decaying, held;
    bool is_sparse() const { return !decaying.empty() || !held.empty(); }
  };
  struct Owned {
    Tensor gradient;          ///< of the whole bucket; undefined: it does not stay
    std::int64_t offset = 0;  ///< of the bucket
    std::vector<Tensor> histories;
    Tensor cosines;  ///< of larc_turbo, one for each piece
    std::vector<Piece> pieces;
  };
  /// Sums the squares of a piece's values and of `step` into piece.squares.
  static void measure_norms(Context& context, Piece& piece, const Tensor& step);
  void find_tiles(Context& context, Piece& piece) const;
  /// Its gradient after gradient_scale, 0 where values stay 0; so is the history.
  Tensor held_gradient(Context& context, Piece& piece, const Tensor& gradient);
  static void add_decays(Context& context, Piece& piece, Tensor& gradient);
  ops::LayerWiseRate measure(Context& context, Piece& piece, const Tensor& gradient) const;
  Tensor gradient_of(const Piece& piece) const;
  void restore_cosines(Context& context, const caffe::BanyanState& state, const std::string& origin);
  template <class Visit>
  void for_each_history(Visit visit) const;

  UpdateSettings settings_;
  std::int64_t max_iter_;
  int iter_size_;
  const std::vector<LearnableParameter>& parameters_;
  std::vector<Owned> owned_;  ///< by bucket number; empty where another device owns it
  ops::UpdateStep step_;
  ops::UpdateValues values_;
  ops::DeviceValue<ops::UpdateValues> values_on_device_;
  int histories_;
  Tensor
      sums_;  ///< of squares: one for each bucket owned here, or for each piece whose gradient does not stay
  bool notes_squares_ = false;
  Tensor direction_;  ///< of LAMB: as long as the longest piece, used by one after the other
  Tensor scaled_;     ///< a gradient after gradient_scale: as long as the longest piece with tiles
  ops::DeviceValue<ops::UpdateValues> values_of_scaled_;  ///< for those: gradient_scale is 1
};

/// Must buckets hold whole parameters?
bool needs_whole_parameters(const UpdateSettings& settings,
                            const std::vector<LearnableParameter>& parameters);

/// One zeroed BlobProto for each entry of Caffe's history: all parameters in net order, statistics and frozen
/// ones included, as often as histories_of says.
std::vector<caffe::BlobProto> prepare_history(const std::vector<LearnableParameter>& parameters,
                                              ops::UpdateRule rule, DType dtype);

}  // namespace banyan
