# Run at build time: writes build_info.h with the commit that is being built.
set(COMMIT "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(COMMIT ${head})
    execute_process(COMMAND ${GIT} diff --quiet HEAD WORKING_DIRECTORY ${SOURCE_DIR}
      ERROR_QUIET RESULT_VARIABLE changed)
    if(changed)
      string(APPEND COMMIT "-modified")
    endif()
  endif()
endif()
configure_file(${INPUT} ${OUTPUT} @ONLY)
