# Runs at install time: copies the shared libraries that the programs need into PREFIX/lib. Python's stays where its modules are, and
# FFmpeg's, which bring a hundred others, where they are.
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} LIBRARIES ${libraries}
  RESOLVED_DEPENDENCIES_VAR resolved UNRESOLVED_DEPENDENCIES_VAR unresolved
  PRE_EXCLUDE_REGEXES "^libbanyan" "^libcud" "^libcublas" "^libnv" "^libpython" "^libav(codec|format|util)" "^libswscale"
  POST_EXCLUDE_REGEXES "/ld-linux" "/lib(c|m|dl|rt|pthread|util)\\.so" "/cuda")
if(unresolved)
  message(FATAL_ERROR "shared libraries not found: ${unresolved}")
endif()
foreach(library ${resolved})
  file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib" TYPE SHARED_LIBRARY FILES "${library}" FOLLOW_SYMLINK_CHAIN)
endforeach()
# Libraries gathered here must find one another here.
find_program(patchelf patchelf)
if(patchelf)
  file(GLOB gathered "${CMAKE_INSTALL_PREFIX}/lib/*.so*")
  foreach(library ${gathered})
    if(NOT IS_SYMLINK "${library}")
      execute_process(COMMAND ${patchelf} --set-rpath "$ORIGIN" "${library}")
    endif()
  endforeach()
endif()
