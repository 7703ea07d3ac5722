# `cmake --install build/release --prefix F` makes one relocatable folder: F/bin programs (and GPU tests), F/lib our libraries and every
# shared library that a bare machine with CUDA lacks. CUDA's libraries and the C library are left out.
set(relocatable_rpath "$ORIGIN/../lib")
set(installed ${programs})
if(TARGET gpu_tests)
  list(APPEND installed gpu_tests)
endif()
set_target_properties(${installed} PROPERTIES INSTALL_RPATH ${relocatable_rpath})
set_target_properties(banyan PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS ${installed} RUNTIME DESTINATION bin)
install(TARGETS banyan LIBRARY DESTINATION lib)
if(BANYAN_WITH_CUDA)
  set_target_properties(banyan_cuda PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS banyan_cuda LIBRARY DESTINATION lib)
endif()
list(TRANSFORM installed PREPEND "$<TARGET_FILE:" OUTPUT_VARIABLE installed_files)
list(TRANSFORM installed_files APPEND ">")
install(CODE "set(programs \"${installed_files}\")")
install(CODE "set(libraries \"$<TARGET_FILE:banyan>\")")
install(SCRIPT ${CMAKE_SOURCE_DIR}/tools/cmake/GatherLibraries.cmake)

# What checks an installed folder on a machine with a GPU (docs/gpu_check.md), and the nets that it trains.
install(PROGRAMS ${CMAKE_SOURCE_DIR}/tools/gpu_check.sh DESTINATION bin)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models DESTINATION share/banyan)
install(FILES tools/gpu_check/torch_speed.py tests/bench/torch_nets.py tests/bench/torch_train.py DESTINATION share/banyan/gpu_check)

install(CODE "set(trainer \"$<TARGET_FILE:trainer>\")" COMPONENT shell)
install(SCRIPT ${CMAKE_SOURCE_DIR}/tools/cmake/ShellFiles.cmake COMPONENT shell)
