// The types of the Caffe family that are not here, with whose they are, and why, or what takes their place:
// the table in docs/from_caffe.md.
#include <array>

#include "other_types.hpp"

namespace banyan::io {
namespace {

constexpr const char* kBinaryWeights =
    "it computes with signs of its weights and learns the weights themselves, which no layer here does; "
    "Convolution and InnerProduct compute with the weights as they are";
constexpr const char* kBoltzmann =
    "they are not trained by the gradient of a loss; an autoencoder of InnerProduct, Sigmoid and "
    "SigmoidCrossEntropyLoss is";
constexpr const char* kFusedLayers = "write the layers that it stands for";
constexpr const char* kGram =
    "no layer multiplies the channels of each sample with each other; of a single sample, CrossCorrelation "
    "with kernel_size: 1 and bias_term: false of maps of C x (H W) x 1 x 1 with themselves does";
constexpr const char* kLabelMargin =
    "LabelSpecificAdd adds a number to the score of each label, LabelSpecificRescale multiplies it; no layer "
    "has other margins";
constexpr const char* kMatrices =
    "CrossCorrelation with kernel_size: 1, num_output: M and bias_term: false multiplies an input of N x K x "
    "1 x 1 by the transpose of one of M x K x 1 x 1; no layer does so for each sample";
constexpr const char* kOfChosen = "EuclideanLoss of the samples that Filter chooses";
constexpr const char* kPairs =
    "it is part of a loss between pixels that are drawn in pairs, for which there is no layer; "
    "SoftmaxWithLoss of single pixels trains such nets";
constexpr const char* kPointCloud = "it takes points without a grid, for which there is no layer";
constexpr const char* kReshapeOnly = "Reshape gives a blob other axes";
constexpr const char* kRounds = "no layer here rounds, which has no gradient";
constexpr const char* kSignGradient =
    "it passes on signs, with a gradient where values are from -1 to 1; Clip from -1 to 1 has that gradient "
    "and does not round";
constexpr const char* kSuppression = "DetectionOutput suppresses boxes that overlap better ones";
constexpr const char* kWholeTerms = "no layer here has terms of truth values; Threshold gives 0 and 1";
constexpr const char* kYolo =
    "branches disagree about its inputs; RegionLoss and Yolov3 are the losses of YOLO's second and third "
    "version";

constexpr std::array kOthers{
    OtherType{"ALSTM", "branches of Caffe",
              "no layer has attention inside of a recurrent layer; LSTM takes vectors"},
    OtherType{"AdaptiveBiasChannel", "DeepLab",
              "its bias is searched for per image; BiasChannel adds one that the file gives"},
    OtherType{"Add", "Synopsys' Caffe and Cambricon's",
              "Eltwise adds inputs of one shape, Bias with two inputs adds a smaller one"},
    OtherType{"ApplyDeformation", "U-Net's Caffe",
              "deform images and labels beforehand and read them with HDF5Data"},
    OtherType{"Attention", "branches of Caffe",
              "they disagree about what it weighs; Softmax gives weights, Scale with two inputs multiplies "
              "by them and Reduction sums"},
    OtherType{"BBoxOutput", "a 3-D Faster R-CNN",
              "it writes boxes into files; FrcnnOutput shows what a detector's head finds"},
    OtherType{"BNConv", "a branch for steganalysis", "BN with decay in its bn_param has the same four blobs"},
    OtherType{"BatchToSpaceND", "Synopsys' Caffe",
              "it is half of a dilated convolution; Convolution has a dilation"},
    OtherType{"BdctToSpatial", "a branch for steganalysis",
              "it turns coefficients of JPEG into pixels; decode the images beforehand and read them with "
              "HDF5Data"},
    OtherType{"BinActiv", "branches for binary nets", kSignGradient},
    OtherType{"BinActive", "branches for binary nets", kSignGradient},
    OtherType{"Binarization", "branches for Boltzmann machines", "Threshold makes 0 and 1 of values"},
    OtherType{"BinaryConvolution", "branches for binary nets", kBinaryWeights},
    OtherType{"BinaryInnerProduct", "branches for binary nets", kBinaryWeights},
    OtherType{"BoxFeatures", "branches for instance segmentation",
              "it repeats an image's scores for each detected box, 0 outside of it; no operator makes as "
              "many maps as there are boxes"},
    OtherType{"BroadcastTo", "Synopsys' Caffe", "Tile repeats a blob along one axis"},
    OtherType{"CTCDecoder", "a branch for reading text",
              "it searches several paths, or names a class for each time step; CTCGreedyDecoder gives the "
              "labels of the best path, of scores with time steps x sequences x classes"},
    OtherType{"Ceil", "Synopsys' Caffe", kRounds},
    OtherType{"ChannelPermutation", "OpenVINO and a branch of Caffe",
              "Slice takes channels apart and Concat joins them in another order; DummyData makes channels "
              "of one value"},
    OtherType{"ConvBnScaleRelu", "a branch of Caffe", kFusedLayers},
    OtherType{"ConvLSTM", "branches for videos",
              "no operator has convolutions inside of a recurrent layer; LSTM takes vectors, as InnerProduct "
              "or a global Pooling makes of maps"},
    OtherType{"ConvolutionReLUPool", "SkimCaffe", kFusedLayers},
    OtherType{"Correlation1D", "FlowNet's branches for stereo",
              "Correlation compares with places above and below, too; a Slice takes the channels without a "
              "vertical shift, which follow each other in the middle"},
    OtherType{"Cosine", "caffe-windows",
              "no layer has the cosines of single values; CosineSimilarity is that of the angle between two "
              "vectors"},
    OtherType{"CreateDeformation", "U-Net's Caffe",
              "deform images and labels beforehand and read them with HDF5Data"},
    OtherType{"CropAndResize", "Synopsys' Caffe",
              "ROIAlign takes regions of maps, without a gradient to their places, too"},
    OtherType{
        "CrossEntropyLoss", "branches of Caffe",
        "of one probability for each class and labels it is MultinomialLogisticLoss, of probabilities and as "
        "many targets SigmoidCrossEntropyLoss of the scores before the Sigmoid; branches disagree"},
    OtherType{"DRBMMeanField", "branches for Boltzmann machines", kBoltzmann},
    OtherType{
        "DeformConv", "branches of Caffe",
        "DeformableConvolution takes its offsets as a second input; write a Convolution that makes them"},
    OtherType{"DepthToSpace", "Synopsys' Caffe",
              "Reshape to N x r x r x C x H x W, Permute to N x C x H x r x W x r and a second Reshape do "
              "the same to maps that are N x C x H x W"},
    OtherType{"DetectionOut", "Cambricon's Caffe",
              "YoloDetectionOutput has the same settings, but for `side`, and makes boxes of the same maps"},
    OtherType{"DetectionPoseOutput", "Cambricon's Caffe",
              "DetectionOutput finds boxes; no layer finds poses with them"},
    OtherType{
        "DiceLoss", "branches of Caffe",
        "in some it shows how well labels agree, not a loss; DiceCoefLoss is the loss of probabilities"},
    OtherType{"DimensionTranspose", "caffe-public", "Permute puts axes into another order"},
    OtherType{"Div", "Synopsys' Caffe",
              "Power with power: -1 of the second input and Eltwise with PROD divide by it"},
    OtherType{"DomainTransform", "DeepLab",
              "its filter passes over one pixel after the other, for which there is no operator; train "
              "without it and refine the outputs afterwards"},
    OtherType{"DomainTransformForwardOnly", "DeepLab",
              "it refines finished scores; run it on the net's outputs afterwards"},
    OtherType{"DriveData", "VPGNet",
              "it makes maps of labels from records of its own; make them beforehand and read images and "
              "maps with HDF5Data"},
    OtherType{"EmbeddingLookup", "Synopsys' Caffe", "Embed has a row for each number"},
    OtherType{"EmbeddingLookupSparse", "Synopsys' Caffe",
              "Embed has a row for each number, and Reduction sums rows that Permute brings to the end"},
    OtherType{"ExpandDimsND", "Synopsys' Caffe", kReshapeOnly},
    OtherType{"FarthestPointSample", "Synopsys' Caffe", kPointCloud},
    OtherType{"FeatureExtrapolating", "SubCNN",
              "it estimates maps of sizes between those of an image pyramid, for which there is no layer; "
              "AnchorTarget and Proposal need one size"},
    OtherType{"FeatureIncayLoss", "caffe-windows",
              "no loss makes features longer; CenterLoss draws them to the centers of their classes"},
    OtherType{"FixedNeuron", "Xilinx's Caffe",
              "it rounds values to numbers with fixed points; remove it: everything computes in f32 or as "
              "--precision says"},
    OtherType{"FloatReader", "FlowNet", "HDF5Data reads values from files"},
    OtherType{"FloatWriter", "FlowNet", "HDF5Output writes values into files"},
    OtherType{"Floor", "Synopsys' Caffe", kRounds},
    OtherType{"FloorDiv", "Synopsys' Caffe", kRounds},
    OtherType{"FloorMod", "Synopsys' Caffe", kRounds},
    OtherType{"GRN", "OpenVINO",
              "Normalize with norm_param { across_spatial: false } divides the channels of each pixel by "
              "their length"},
    OtherType{"GRU", "branches of Caffe",
              "LSTM and RNN are the recurrent layers here; none has a GRU's gates"},
    OtherType{"GRUCell", "branches of Caffe",
              "LSTM and RNN are the recurrent layers here; none has a GRU's gates"},
    OtherType{"GatherNd", "Synopsys' Caffe",
              "BatchReindex picks samples by their numbers; no layer picks single values"},
    OtherType{"GatherV2", "Synopsys' Caffe",
              "BatchReindex picks samples by their numbers; Permute brings another axis to the front"},
    OtherType{"GaussianNoise", "branches of Caffe",
              "a DummyData layer with a gaussian data_filler, added by Eltwise, is noise"},
    OtherType{"Gemm", "Synopsys' Caffe", kMatrices},
    OtherType{"GlobalMaxPooling", "OICR's branches",
              "it takes the largest over the samples; Permute to C x N, Reshape to 1 x C x N x 1 and a "
              "global Pooling with MAX do so"},
    OtherType{"GlobalPooling", "a branch of Caffe",
              "it leaves out values below a threshold; Pooling with global_pooling: true takes all"},
    OtherType{"GlobalSumPooling", "OICR",
              "it sums over the samples; Permute to C x N, Reduction with axis: 1 and Reshape do so"},
    OtherType{"Gram", "branches of Caffe", kGram},
    OtherType{"GramMat", "branches of Caffe", kGram},
    OtherType{"Gramian", "branches of Caffe", kGram},
    OtherType{"GridLSTM3D", "caffe-public",
              "no operator goes over rows and columns of maps; LSTM goes along one axis"},
    OtherType{"GroupPoint", "Synopsys' Caffe", kPointCloud},
    OtherType{"HardSigmoid", "Synopsys' Caffe and others",
              "Power with its alpha as scale and its beta as shift, and Clip from 0 to 1, compute the same"},
    OtherType{
        "HeatmapError", "a branch for parsing people",
        "it makes a weight of the differences of two heatmaps; EuclideanLoss compares them as they are"},
    OtherType{"HeatmapGenerating", "SubCNN",
              "it makes the map from which ROIGenerating chooses, which is not here either"},
    OtherType{
        "Hotspot", "caffe-windows",
        "it draws maps of points from their coordinates; draw them beforehand and read them with HDF5Data"},
    OtherType{"HuberLoss", "branches of Caffe",
              "they disagree about what it shows and where it turns; SmoothL1Loss is Huber's loss, which "
              "turns at 1 / sigma^2"},
    OtherType{"Im2Windows", "a branch of Caffe",
              "it cuts images into windows side by side, with labels from boxes; cut them beforehand and "
              "read them with HDF5Data"},
    OtherType{"ImResize", "OpenPose", "Interp enlarges maps"},
    OtherType{"ImageDataSteganalysisJpegDct", "a branch for steganalysis",
              "it reads coefficients from pairs of JPEG files; decode the images beforehand and read them "
              "with HDF5Data"},
    OtherType{"ImageDetect", "Cambricon's Caffe",
              "FrcnnOutput shows what a detector's head finds, after non-maximum suppression"},
    OtherType{
        "ImageSegUniformSizeData", "caffe-public",
        "ImageSegData reads pairs of images; new_height and new_width, or a crop, give all of them one size"},
    OtherType{"InstanceNorm", "branches of Caffe",
              "GroupNorm whose group_num is the number of channels; its eps is 0.0001 in a branch"},
    OtherType{"InterClass", "sphereface-plus",
              "it moves the rows of another layer's weights apart, for which there is no loss; without it "
              "MarginInnerProduct trains as SphereFace does"},
    OtherType{"KLLoss", "branches of Caffe",
              "of two distributions in some, of scores and a distribution in others; SoftmaxCrossEntropyLoss "
              "compares the softmax of scores with a distribution"},
    OtherType{"L2Norm", "branches of Caffe",
              "Normalize makes each sample 1 long, with norm_param { across_spatial: false } each pixel; "
              "branches disagree, but for vectors"},
    OtherType{"LS", "a branch for extreme learning machines",
              "it solves least squares for all weights at once, which is no training by gradients; an "
              "InnerProduct with EuclideanLoss comes to the same solution"},
    OtherType{"LSTM_2D", "caffe-public",
              "no operator goes over rows and columns of maps; LSTM goes along one axis"},
    OtherType{"LabelSpecificAffine", "caffe-windows", kLabelMargin},
    OtherType{"LabelSpecificHardMargin", "caffe-windows", kLabelMargin},
    OtherType{"LabelSpecificMargin", "caffe-windows", kLabelMargin},
    OtherType{"LabelSpecificStatistics", "caffe-windows",
              "it shows how scores of labels and of other classes are spread, with which nothing is trained; "
              "remove it"},
    OtherType{"LayerNorm", "branches of Caffe",
              "GroupNorm with group_num: 1 and its eps; Scale with bias_term: true after it learns factors "
              "and biases"},
    OtherType{"LocLoss", "branches with a SpatialTransformer",
              "no loss keeps what a SpatialTransformer reads within bounds; Clip limits its parameters"},
    OtherType{"LogSoftmax", "branches of Caffe", "Softmax and Log"},
    OtherType{"LuongAttention", "Synopsys' Caffe", "no layer has attention; LSTM takes vectors"},
    OtherType{
        "MHDRoiData", "a 3-D Faster R-CNN",
        "it reads medical images of MetaImage's format with boxes; convert them and read them with HDF5Data"},
    OtherType{
        "MOE", "BVLC's opencl branch",
        "it holds whole nets as experts; write them as layers, weighted by a Softmax with Scale and Eltwise"},
    OtherType{"MTCNNData", "branches for MTCNN",
              "prepare labels, boxes and landmarks beforehand and read them with HDF5Data"},
    OtherType{"MTCNNEuclideanLoss", "branches for MTCNN", kOfChosen},
    OtherType{"MaskConvolution", "caffe-rcnn",
              "it leaves out positions that a mask excludes; Convolution computes all of them"},
    OtherType{
        "MaskCreate", "a branch for parsing people",
        "it makes maps of the classes with the highest scores; ArgMax with axis: 1 gives their numbers"},
    OtherType{"MaskRCNNDetection", "Synopsys' Caffe",
              "it belongs to a finished Mask R-CNN; FrcnnOutput shows what a detector's head finds"},
    OtherType{"MaskRCNNProposal", "Synopsys' Caffe",
              "it belongs to a finished Mask R-CNN; Proposal makes regions of one map"},
    OtherType{"MatMul", "branches of Caffe", kMatrices},
    OtherType{"MatRead", "DeepLab", "Banyan reads and writes no files of MATLAB"},
    OtherType{"Matmul", "branches of Caffe", kMatrices},
    OtherType{"Matrix2DMultiplication", "branches of Caffe", kMatrices},
    OtherType{"MatrixMul", "branches of Caffe", kMatrices},
    OtherType{"MatrixMultiplication", "branches of Caffe", kMatrices},
    OtherType{"Max", "Synopsys' Caffe",
              "a global Pooling with MAX takes the largest value of each map; Permute and Reshape make maps "
              "of other axes"},
    OtherType{"Maximum", "branches of Caffe",
              "Eltwise with MAX takes the larger values of inputs of one shape; in some it finds the peaks "
              "of maps, for which there is no layer"},
    OtherType{"Maxout", "branches of Caffe",
              "Reshape to N x K x c x P, where K is its num_output, c the channels of each and P the pixels, "
              "Pooling with MAX, kernel_h: c and kernel_w: 1, and a second Reshape do the same"},
    OtherType{"Mean", "FlowNet",
              "it adds or subtracts a mean; Power with shift does so with one number, Bias with one for each "
              "channel"},
    OtherType{"MergeData", "branches of Caffe",
              "in some Concat with axis: 0 does the same; in others it mixes tiles of two images at random, "
              "for which there is no layer"},
    OtherType{"Minimum", "Synopsys' Caffe", "Power with scale: -1 before and after an Eltwise with MAX"},
    OtherType{"MirrorPad", "Synopsys' Caffe",
              "Padding surrounds images with zeros; no layer reflects them at their borders"},
    OtherType{"MnActivation", "Intel's Caffe",
              "it divides a net among machines; remove it: here every device holds the whole net"},
    OtherType{"MnParamGradCompress", "Intel's Caffe",
              "it compresses gradients between machines; remove it: here they are exchanged as they are"},
    OtherType{"Module", "a Faster R-CNN with feature pyramids",
              "it loads programs of its own; AnchorTarget, Proposal and ProposalTarget do the same for one "
              "map, and BoxGroupOutput makes regions of several"},
    OtherType{"Mul", "Synopsys' Caffe",
              "Eltwise with PROD multiplies inputs of one shape, Scale with two inputs multiplies by a "
              "smaller one"},
    OtherType{"MultiBoxFocalLoss", "branches of SSD",
              "MultiBoxLoss with mining_type: MAX_NEGATIVE chooses hard examples"},
    OtherType{"MulticlassCrossEntropyLoss", "OICR and others",
              "SigmoidCrossEntropyLoss takes scores, which of probabilities p are log(p) - log(1 - p): Log, "
              "Log with scale: -1 and shift: 1, and Eltwise with coeff: 1 and coeff: -1"},
    OtherType{"NMS", "Synopsys' Caffe", kSuppression},
    OtherType{"NMSGather", "Synopsys' Caffe", kSuppression},
    OtherType{"Nms", "OpenPose",
              "it looks for peaks in finished maps; do so on the net's outputs afterwards"},
    OtherType{"Noise", "BVLC's opencl branch and caffe-windows",
              "a DummyData layer with a gaussian data_filler, added by Eltwise, is noise"},
    OtherType{"NonMaxSuppression", "Synopsys' Caffe", kSuppression},
    OtherType{"NotEqual", "Synopsys' Caffe", kWholeTerms},
    OtherType{"OPData", "OpenPose",
              "it mixes several sets of records, on backgrounds of another; CPMData reads one set, of people "
              "with the joints of COCO or MPI"},
    OtherType{"OftenMtcnnAccuracy", "a branch for MTCNN", "Accuracy of the samples that Filter chooses"},
    OtherType{"OftenMtcnnClassBridge", "a branch for MTCNN", "Filter passes on chosen samples"},
    OtherType{"OftenMtcnnData", "a branch for MTCNN",
              "prepare labels, boxes and landmarks beforehand and read them with HDF5Data"},
    OtherType{"OftenMtcnnEuclideanLoss", "a branch for MTCNN", kOfChosen},
    OtherType{"OftenMtcnnLandMarkLoss", "a branch for MTCNN", kOfChosen},
    OtherType{
        "OftenMtcnnSoftmaxLoss", "a branch for MTCNN",
        "SoftmaxWithLoss with thresh_ratio: 0.7 learns from the hardest of the samples that Filter chooses"},
    OtherType{"OneHot", "Synopsys' Caffe", "Embed whose weights are a unit matrix and do not learn"},
    OtherType{"Pad", "Synopsys' Caffe", "Padding surrounds images with zeros"},
    OtherType{"PairwiseEnergy", "a branch of DeepLab", kPairs},
    OtherType{"PairwiseGT", "a branch of DeepLab", kPairs},
    OtherType{"PeepholeLSTM", "Synopsys' Caffe", "no gate of the LSTM here reads the state of its cells"},
    OtherType{"PerClassAccuracy", "branches of Caffe",
              "they disagree about what it shows, and so do versions of one of them; a second top of "
              "Accuracy shows the accuracy of each class"},
    OtherType{"Permutation", "branches of Caffe",
              "Permute puts axes into another order; branches disagree: some move pixels, or cut images into "
              "tiles in a random order"},
    OtherType{"PixelShuffle", "branches of Caffe",
              "Reshape to N x C x r x r x H x W, Permute to N x C x H x r x W x r and a second Reshape do "
              "the same"},
    OtherType{
        "PoseCreate", "a branch for parsing people",
        "it draws maps of points from their coordinates; draw them beforehand and read them with HDF5Data"},
    OtherType{
        "PoseEvaluate", "a branch for parsing people",
        "it finds the centers of parts in maps of labels; find them beforehand and read them with HDF5Data"},
    OtherType{"PowerFile", "branches with a SpatialTransformer",
              "it adds numbers from a file; a Bias layer with param { lr_mult: 0 } does so, whose values "
              "--weights gives"},
    OtherType{
        "QuantTruncAbs", "a branch for steganalysis",
        "AbsVal and Clip give magnitudes up to a threshold; no layer here rounds, which has no gradient"},
    OtherType{"QueryBallPoint", "Synopsys' Caffe", kPointCloud},
    OtherType{"RBMInnerProduct", "branches for Boltzmann machines", kBoltzmann},
    OtherType{"RBMReturn", "branches for Boltzmann machines", kBoltzmann},
    OtherType{"ROIGenerating", "SubCNN",
              "it chooses regions from maps of subcategories; AnchorTarget, Proposal and ProposalTarget do "
              "so for anchors"},
    OtherType{
        "RandomErase", "branches of Caffe",
        "no layer erases parts of images at random; Dropout erases single values, SpatialDropout whole maps"},
    OtherType{"RandomSample2D", "a branch of DeepLab", kPairs},
    OtherType{"Range", "Synopsys' Caffe",
              "its numbers depend on its settings alone; read such with HDF5Data"},
    OtherType{"RankLoss", "branches of Caffe",
              "SigmoidCrossEntropyLoss of the difference of two scores (Eltwise with coeff: 1 and coeff: "
              "-1), where the label is 1 if the first one must be higher"},
    OtherType{"ReduceAll", "Synopsys' Caffe", kWholeTerms},
    OtherType{"ReduceAny", "Synopsys' Caffe", kWholeTerms},
    OtherType{"ReduceL1", "Synopsys' Caffe",
              "Reduction with ASUM over the last axes; Permute brings others there"},
    OtherType{
        "ReduceL2", "Synopsys' Caffe",
        "Reduction with SUMSQ over the last axes, and Power with power: 0.5; Permute brings others there"},
    OtherType{"ReduceMax", "Synopsys' Caffe",
              "a global Pooling with MAX takes the largest value of each map; Permute and Reshape make maps "
              "of other axes"},
    OtherType{"ReduceMean", "Synopsys' Caffe",
              "Reduction with MEAN over the last axes; Permute brings others there"},
    OtherType{"ReduceMin", "Synopsys' Caffe",
              "Power with scale: -1 before and after a global Pooling with MAX; Permute and Reshape make "
              "maps of other axes"},
    OtherType{"ReduceProd", "Synopsys' Caffe",
              "no layer multiplies the values along an axis; Slice and Eltwise with PROD multiply a few"},
    OtherType{"ReduceSum", "Synopsys' Caffe",
              "Reduction with SUM over the last axes; Permute brings others there"},
    OtherType{"RegionYolo", "OpenVINO", "YoloDetectionOutput makes boxes of the same maps"},
    OtherType{"RemoteData", "Intel's Caffe",
              "it asks another machine for its data; every machine reads its own here, as with Data"},
    OtherType{"ReorgYolo", "OpenVINO", "Reorg with the same stride"},
    OtherType{"ResizeBilinear", "Synopsys' Caffe",
              "Interp resizes so that the corners agree, MaskResize so that the first points do"},
    OtherType{"ResizeNearestNeighbor", "Synopsys' Caffe",
              "Upsample with one input repeats pixels by a whole factor"},
    OtherType{"ReverseSequence", "Synopsys' Caffe",
              "Reverse turns a whole axis round; no layer knows how long each sequence is"},
    OtherType{"RotateROIPooling", "RRPN",
              "ROIPooling and ROIAlign take upright regions; no layer takes rotated ones"},
    OtherType{"STLoss", "branches with a SpatialTransformer",
              "no loss keeps what a SpatialTransformer reads within the image; Clip limits its parameters"},
    OtherType{"SeLu", "branches of Caffe", "ELU with its alpha, and Power with its lambda as scale"},
    OtherType{"SeLuDropout", "branches of Caffe",
              "Dropout sets values to 0; no layer sets them to the lower bound of SeLu"},
    OtherType{"SegmentationEvaluate", "MobileNet-YOLO",
              "SegAccuracy shows how well classes of pixels are found"},
    OtherType{"SibData", "yjxiong's Caffe",
              "it cuts each image sib_num times, once from each of as many parts side by side, into an "
              "output each, mirrored alike; as many Data layers of the same LMDB read the same images, each "
              "cut anywhere and mirrored for itself"},
    OtherType{"SimplerNMS", "Intel's Caffe",
              "Proposal makes regions of the same three inputs, with its min_bbox_size as min_size and its "
              "iou_threshold as nms_thresh"},
    OtherType{"SoftmaxTree", "branches of YOLO",
              "no layer has a tree of classes; Softmax takes all of them alike"},
    OtherType{"SpaceToBatchND", "Synopsys' Caffe",
              "it is half of a dilated convolution; Convolution has a dilation"},
    OtherType{"SpaceToDepth", "Synopsys' Caffe",
              "Reshape to N x C x H x r x W x r, Permute to N x r x r x C x H x W and a second Reshape do "
              "the same to maps that are N x C x H x W"},
    OtherType{"SparseToDense", "Synopsys' Caffe",
              "no layer here has sparse blobs; fill them beforehand and read them with HDF5Data"},
    OtherType{
        "Sqrt", "branches of Caffe",
        "Power with power: 0.5, or SignedSqrt where values may be negative; branches disagree about these"},
    OtherType{"Square", "branches of Caffe",
              "Power with power: 2, in a branch with its own power, in another of the difference of two "
              "inputs (Eltwise with coeff: 1 and coeff: -1)"},
    OtherType{"Squeeze", "Synopsys' Caffe", kReshapeOnly},
    OtherType{"SqueezeConvolution", "Synopsys' Caffe",
              "Convolution with connectivity_mode: DISCONNECTED_ELTWISE keeps weights at 0; none become 0 "
              "while it trains"},
    OtherType{"SqueezeInnerProduct", "Synopsys' Caffe",
              "InnerProduct with connectivity_mode: DISCONNECTED_ELTWISE keeps weights at 0; none become 0 "
              "while it trains"},
    OtherType{"Stack", "Synopsys' Caffe",
              "Reshape gives each blob an axis of length 1, along which Concat joins them"},
    OtherType{"StridedSlice", "Synopsys' Caffe", "Slice cuts along an axis, without steps"},
    OtherType{"TernaryConvolution", "branches for binary nets",
              "it computes with weights of three values and learns the weights themselves, which no layer "
              "here does; Convolution computes with the weights as they are"},
    OtherType{"ThresholdedReLU", "Synopsys' Caffe",
              "Threshold with its theta, and Eltwise with PROD of that and the input, compute the same"},
    OtherType{"TileND", "Synopsys' Caffe", "Tile repeats a blob along one axis"},
    OtherType{"TransformSoftmaxLoss", "a branch of Caffe",
              "no description says what it computes; only a layer written in C++ (docs/new_layer.md) can "
              "take its place"},
    OtherType{"Truncation", "caffe-windows", "Clip with its lower_bound as min and its upper_bound as max"},
    OtherType{"UnPooling", "ParseNet", "Unpooling with a mask, or with unpool: FIXED"},
    OtherType{"Unstack", "Synopsys' Caffe", "Slice cuts along an axis, and Reshape takes it away"},
    OtherType{"UpsampleDarknet", "Synopsys' Caffe", "Upsample with one input repeats pixels by its scale"},
    OtherType{"VolumeData", "C3D", "convert the data to LMDB (convert_imageset) and read it with Data"},
    OtherType{"WarpCTC", "branches for reading text",
              "no description says how it reads labels; WarpCTCLoss, CtcLoss and CTCLoss compute CTC, each "
              "with its branch's form of the labels"},
    OtherType{"WassersteinLoss", "branches of Caffe",
              "it finds by iteration what it costs to move the predicted probabilities of each sample to its "
              "labels, with costs between classes from a file, for which there is no operator (and in a "
              "branch it is not a number for single labels); InfogainLoss, too, takes a matrix of classes"},
    OtherType{"WeightedEuclideanLoss", "branches of Caffe",
              "branches disagree about what its weights multiply and what it divides by; EuclideanLoss of "
              "both blobs, each multiplied by the roots of the weights (Power with power: 0.5, Eltwise with "
              "operation: PROD), weighs the squares"},
    OtherType{"YOLOLoss", "branches of YOLO", kYolo},
    OtherType{"YoloData", "branches of YOLO",
              "AnnotatedData reads images with boxes, from which RegionLoss and Yolov3 learn"},
    OtherType{"YoloLoss", "branches of YOLO", kYolo},
    OtherType{"YoloSeg", "MobileNet-YOLO",
              "SigmoidCrossEntropyLoss or SoftmaxWithLoss trains maps of classes, with a loss_weight beside "
              "the loss of boxes"},
    OtherType{"YoloV1", "branches of YOLO", kYolo},
    OtherType{"YoloV2Loss", "branches of YOLO", "RegionLoss is the loss of YOLO's second version"},
    OtherType{"YoloV3Loss", "branches of YOLO", "Yolov3 is the loss of YOLO's third version"},
};

}  // namespace

std::span<const OtherType> other_types() { return kOthers; }

}  // namespace banyan::io
