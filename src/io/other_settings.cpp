#include "other_settings.hpp"

namespace banyan::io {
namespace {

/// Fields of branches, and why there is nothing for them here.
struct OtherField {
  const char *message, *field, *reason;
};
constexpr const char* kSparse =
    "it is of caffe-jacinto, which with sparse_mode: SPARSE_INC sets more and more small weights to 0 while "
    "it trains; here sparse_mode: SPARSE_UPDATE keeps those that are 0";
constexpr const char* kDocumentOrder =
    "it is of later versions of ctensmeyer's Caffe; here each batch draws one of the sources by weight, and "
    "records follow each other in their order";
constexpr const char* kDocumentImages =
    "it is of later versions of ctensmeyer's Caffe; resize_params, crop_params, reflect_params and "
    "linear_params are known here";
constexpr OtherField kOtherFields[] = {
    {"DocDataParameter", "enforce_epochs", kDocumentOrder},
    {"DocDataParameter", "in_order", kDocumentOrder},
    {"DocDataParameter", "no_wrap", kDocumentOrder},
    {"DocDataParameter", "rand_advance_skip", kDocumentOrder},
    {"DropoutParameter", "scale_test",
     "no description says what the branch that has it computes; scale_train: false (BVLC's opencl branch) "
     "multiplies tests by 1 - dropout_ratio in place of training by its inverse"},
    {"LayerParameter", "dice_coef_loss_param",
     "it is of jolibrain's Caffe, whose DiceCoefLoss weighs classes; here the type is HolmesShuan's, of all "
     "values of a sample alike, and has no settings of its own"},
    {"LinearTransformParameter", "scale_file", "no version of ctensmeyer's Caffe reads it"},
    {"LinearTransformParameter", "shift_file", "no version of ctensmeyer's Caffe reads it"},
    {"ProbImageTransformParameter", "channel_params", "no version of ctensmeyer's Caffe reads it"},
    {"ProbImageTransformParameter", "color_jitter_params", kDocumentImages},
    {"ProbImageTransformParameter", "elastic_deformation_params", kDocumentImages},
    {"ProbImageTransformParameter", "gauss_blur_params", kDocumentImages},
    {"ProbImageTransformParameter", "gauss_noise_params", kDocumentImages},
    {"ProbImageTransformParameter", "hsv_params", kDocumentImages},
    {"ProbImageTransformParameter", "otsu_color_jitter_params", kDocumentImages},
    {"ProbImageTransformParameter", "perspective_params", kDocumentImages},
    {"ProbImageTransformParameter", "rotate_params", kDocumentImages},
    {"ProbImageTransformParameter", "salt_pepper_params", kDocumentImages},
    {"ProbImageTransformParameter", "shear_params", kDocumentImages},
    {"ProbImageTransformParameter", "unsharp_mask_params", kDocumentImages},
    {"ProbImageTransformParameter", "zero_border_params", kDocumentImages},
    {"ROIPoolingParameter", "pooled_size",
     "it is Intel's, for maps with three spatial axes; pooled_h and pooled_w are the sizes for two"},
    {"SolverParameter", "multinode_param",
     "it is Intel's, for its servers of parameters; trainer --uplink=mpi and --parameter_server join "
     "machines"},
    {"SolverParameter", "solver_trace_param",
     "it is a branch's; trainer --metrics=FOLDER writes the figures of a run, --trace=FILE where its time "
     "goes"},
    {"SolverParameter", "sparsity_lr_mult", kSparse},
    {"SolverParameter", "sparsity_start_factor", kSparse},
    {"SolverParameter", "sparsity_start_iter", kSparse},
    {"SolverParameter", "sparsity_step_factor", kSparse},
    {"SolverParameter", "sparsity_step_iter", kSparse},
    {"SolverParameter", "sparsity_target", kSparse},
    {"SolverParameter", "stepearly",
     "it is of an early Caffe; lr_policy: \"plateau\" lowers the rate when the loss does not fall any more"},
};

}  // namespace

std::string about_other_field(const std::string& message, const std::string& field) {
  for (const OtherField& other : kOtherFields)
    if (message == other.message && field == other.field) return other.reason;
  return "";
}

}  // namespace banyan::io
