package org.apache.kafka.controller;

import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

import java.util.List;

/** The newest line of the authorizer's logger, with its level. */
final class AuditTexts extends AbstractAppender {
    private static final String LOGGER = "kafka.authorizer.logger";

    private List<String> newest;

    private AuditTexts() {
        super("audit", null, null, true, Property.EMPTY_ARRAY);
    }

    /** Returns an object that receives every line from now on. */
    static AuditTexts listen() {
        AuditTexts texts = new AuditTexts();
        texts.start();
        Configurator.setLevel(LOGGER, Level.TRACE);
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        LoggerConfig logger = context.getConfiguration().getLoggerConfig(LOGGER);
        logger.setAdditive(false);
        logger.addAppender(texts, Level.TRACE, null);
        context.updateLoggers();
        return texts;
    }

    @Override
    public void append(LogEvent event) {
        newest = List.of(event.getLevel().name(), event.getMessage().getFormattedMessage());
    }

    /** Returns level and text of the line since the last call, or null if nothing was logged. */
    List<String> take() {
        List<String> taken = newest;
        newest = null;
        return taken;
    }
}
