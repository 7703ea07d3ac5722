# Folders for BANYAN_DNNL_ROOT, right and wrong ones, made from the oneDNN of this build. Run by ctest: cmake -DMODULES= -DHEADERS= -DLIBRARY=
# -DOPENMP= -DCMAKE_READELF= -DWORK= -P dnnl_root.cmake
include(${MODULES}/DnnlRoot.cmake)
file(STRINGS ${HEADERS}/oneapi/dnnl/dnnl_version.h version REGEX "define DNNL_VERSION_MAJOR")
string(REGEX REPLACE ".*MAJOR +" "" version "${version}")
math(EXPR other "5 - ${version}")

# FOLDER, with the library as NAME: a copy of the headers that say version MAJOR and RUNTIME.
function(make_root folder name major runtime)
  file(REMOVE_RECURSE ${folder})
  file(WRITE ${folder}/include/oneapi/dnnl/dnnl_version.h "#define DNNL_VERSION_MAJOR ${major}\n#define DNNL_VERSION_MINOR 6\n")
  file(WRITE ${folder}/include/oneapi/dnnl/dnnl_config.h "#define DNNL_CPU_THREADING_RUNTIME DNNL_RUNTIME_${runtime}\n")
  get_filename_component(libraries ${folder}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${libraries})
  file(CREATE_LINK ${LIBRARY} ${folder}/${name} SYMBOLIC)
endfunction()

# What is found in the folder must match LIBRARY_WANTED, and the problem PROBLEM_WANTED.
function(expect folder openmp library_wanted problem_wanted)
  read_dnnl_root(${folder} ${openmp})
  if(NOT dnnl_library MATCHES "${library_wanted}" OR NOT dnnl_problem MATCHES "${problem_wanted}")
    message(SEND_ERROR "library: ${dnnl_library} (not ${library_wanted}), problem: ${dnnl_problem} (not ${problem_wanted})")
  endif()
endfunction()

set(root ${WORK}/dnnl_root)
make_root(${root} lib/libdnnl.so ${version} OMP)
expect(${root} ${OPENMP} "/lib/libdnnl.so$" "^$")
make_root(${root} lib64/libdnnl.so.${version} ${version} OMP)
expect(${root} ${OPENMP} "/lib64/libdnnl.so.${version}$" "^$")
file(REMOVE_RECURSE ${root}/include)
expect(${root} ${OPENMP} "" "^no oneDNN in ")
expect(${root}/missing ${OPENMP} "^$" "^no oneDNN in ")
make_root(${root} lib/libdnnl.so 4 OMP)
expect(${root} ${OPENMP} "" " is version 4; ")
make_root(${root} lib/libdnnl.so ${version} TBB)
expect(${root} ${OPENMP} "" " threads of another kind \\(TBB\\)")
make_root(${root} lib/libdnnl.so ${other} OMP)
expect(${root} ${OPENMP} "" " headers beside it, which are version ${other}")
make_root(${root} lib/libdnnl.so ${version} OMP)
expect(${root} other_omp "" " another OpenMP library than the compiler's, libother_omp")
# A library found before is not taken for one of this folder.
set(library ${LIBRARY})
expect(${root}/missing ${OPENMP} "^$" "^no oneDNN in ")
# Without a reader of libraries, the headers are all there is to check.
set(CMAKE_READELF "")
expect(${root} other_omp "/lib/libdnnl.so$" "^$")
